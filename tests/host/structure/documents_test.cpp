// What documents say about the tree is true: the files that they name exist.
#include <filesystem>
#include <regex>

#include "source_tree.h"
#include "tests/support/catch.h"

using structure::SourceFile;

TEST_CASE("Documents.NameFilesThatExist") {
  const std::vector<SourceFile> documents = structure::files_below(".", {".md"});
  CHECK(documents.size() > 5);
  const std::filesystem::path root = PROJECT_ROOT;
  const std::regex link(R"(\]\(([^)#:]+)\))");
  const std::regex path(
      "`((?:plugin|kernels|sandbox|bench|tests|include|examples|scripts|docs|cmake)/[\\w/.-]+\\.\\w+)`");
  std::string found;
  for (const SourceFile& document : documents) {
    const auto here = (root / document.path).parent_path();
    const auto look = [&](const std::regex& expression, const std::filesystem::path& base) {
      for (std::sregex_iterator match(document.text.begin(), document.text.end(), expression), end;
           match != end; ++match) {
        if (!std::filesystem::exists(base / (*match)[1].str()))
          found += document.path + ": " + (*match)[1].str() + "\n";
      }
    };
    look(link, here);
    look(path, root);
  }
  CHECK(found == "");
}
