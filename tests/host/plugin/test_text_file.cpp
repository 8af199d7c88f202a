// Small files are read whole, whatever size they say they have.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.h"
#include "plugin/text_file.h"

namespace sdp4bit {
namespace {

TEST_CASE("TextFile.IsReadWhole") {
  for (const std::size_t length : {std::size_t{0}, std::size_t{4096}, std::size_t{10'001}}) {
    char path[] = "/tmp/text_file_XXXXXX";
    const int file = ::mkstemp(path);
    REQUIRE(file >= 0);
    std::string text(length, 'x');
    if (length > 0) text[length / 2] = '\0';
    std::FILE* const output = ::fdopen(file, "w");
    REQUIRE(std::fwrite(text.data(), 1, length, output) == length);
    REQUIRE(std::fclose(output) == 0);
    CHECK(read_text_file(path) == text);
    std::remove(path);
  }
}

TEST_CASE("TextFile.OfProcHasNoSizeAndIsRead") {
  CHECK(!read_text_file("/proc/self/cmdline").empty());
}

TEST_CASE("TextFile.ThatIsMissingIsEmpty") {
  CHECK(read_text_file("/nowhere/at/all").empty());
}

}  // namespace
}  // namespace sdp4bit
