// Wrapper -> container -> entries -> PTX text.
#include "sandbox/ptx/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "sandbox/ptx/machine.h"

namespace sandbox::ptx {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kContainerMagic = 0xba55ed50;
constexpr std::uint16_t kKindPtx = 1;
constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;
constexpr std::size_t kContainerHeaderBytes = 16;
constexpr std::size_t kEntryHeaderBytes = 64;
constexpr std::uint64_t kLargestText = std::uint64_t{256} << 20;

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::byte* data;
  const void* filename_or_images;  // version 2: a list of containers that ends with a null pointer
};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[noreturn]] void fail(const std::string& text) {
  throw Fault{FaultKind::invalid_image, text};
}

struct Entry {
  std::uint16_t kind;
  std::uint32_t architecture;
  std::uint64_t flags;
  std::uint64_t uncompressed_bytes;
  std::uint32_t compressed_bytes;
  std::span<const std::byte> payload;
};

/// What one container holds.
struct Container {
  std::optional<Entry> best;         // the newest PTX that the machine can run
  std::vector<std::uint32_t> other;  // architectures of everything else
  bool newer_ptx = false;
};

std::size_t container_bytes(const std::byte* data) {
  if (load<std::uint32_t>(data) != kContainerMagic)
    fail("a fatbin container does not begin with its magic number");
  const std::size_t header_bytes = load<std::uint16_t>(data + 6);
  const auto content_bytes = static_cast<std::size_t>(load<std::uint64_t>(data + 8));
  if (content_bytes > SIZE_MAX - header_bytes) fail("a fatbin container says it is larger than memory");
  return header_bytes + content_bytes;
}

Container read_container(const std::byte* data, std::size_t bytes) {
  Container container;
  std::size_t at = load<std::uint16_t>(data + 6);
  while (at <= bytes && bytes - at >= kEntryHeaderBytes) {
    const std::byte* header = data + at;
    const std::size_t header_bytes = load<std::uint32_t>(header + 4);
    const auto payload_bytes = static_cast<std::size_t>(load<std::uint64_t>(header + 8));
    // Nothing is added before it is known to fit: these numbers may be anything.
    if (header_bytes < kEntryHeaderBytes || header_bytes > bytes - at ||
        payload_bytes > bytes - at - header_bytes)
      fail("a fatbin entry reaches beyond its container");
    const Entry entry{load<std::uint16_t>(header),      load<std::uint32_t>(header + 28),
                      load<std::uint64_t>(header + 40), load<std::uint64_t>(header + 56),
                      load<std::uint32_t>(header + 16), {header + header_bytes, payload_bytes}};
    at += header_bytes + payload_bytes;
    const bool fits = static_cast<int>(entry.architecture) <= compute_capability();
    if (entry.kind == kKindPtx && fits) {
      if (!container.best || container.best->architecture < entry.architecture) container.best = entry;
    } else {
      container.other.push_back(entry.architecture);
      container.newer_ptx |= entry.kind == kKindPtx;
    }
  }
  return container;
}

std::string decompress(const Entry& entry) {
  const auto* source = reinterpret_cast<const char*>(entry.payload.data());
  std::string text;
  if (entry.compressed_bytes == 0 || entry.uncompressed_bytes == 0) {
    text.assign(source, entry.payload.size());
  } else {
    if (entry.compressed_bytes > entry.payload.size()) fail("compressed PTX reaches beyond its fatbin entry");
    if (entry.uncompressed_bytes > kLargestText) fail("a fatbin entry says its PTX has more than 256 MiB");
    text.resize(entry.uncompressed_bytes);
    if (entry.flags & kFlagZstd) {
      const auto written = ZSTD_decompress(text.data(), text.size(), source, entry.compressed_bytes);
      if (ZSTD_isError(written))
        fail(std::string("PTX does not decompress (zstd: ") + ZSTD_getErrorName(written) + ")");
    } else if (entry.flags & kFlagLz4) {
      const int written = LZ4_decompress_safe(source, text.data(), static_cast<int>(entry.compressed_bytes),
                                              static_cast<int>(text.size()));
      if (written < 0) fail("PTX does not decompress (LZ4)");
    } else {
      fail("PTX is compressed in an unknown way");
    }
  }
  text.resize(std::strlen(text.c_str()));  // the padding behind the text
  return text;
}

std::string describe_missing(const Container& container) {
  std::string text = "the image has no PTX that this machine can run (it emulates compute capability " +
                     std::to_string(compute_capability()) + "; found";
  for (const auto architecture : container.other) text += " " + std::to_string(architecture);
  text += container.newer_ptx
              ? "): build with PTX for an older architecture, or set SANDBOX_COMPUTE_CAPABILITY"
              : " as machine code only): build with PTX, for example -arch=compute_80";
  return text;
}

std::vector<std::string> read_containers(const std::vector<std::span<const std::byte>>& images) {
  std::vector<std::string> texts;
  std::string missing;
  for (const auto image : images) {
    const Container container = read_container(image.data(), image.size());
    if (container.best)
      texts.push_back(decompress(*container.best));
    else if (!container.other.empty())
      missing = describe_missing(container);
  }
  // With relocatable device code the toolkit adds machine-code-only images of its own: only none at all is an
  // error.
  if (texts.empty() && !missing.empty()) fail(missing);
  return texts;
}

}  // namespace

int compute_capability() {
  static const int value = [] {
    const char* text = std::getenv("SANDBOX_COMPUTE_CAPABILITY");
    const int wanted = text ? std::atoi(text) : 0;
    return wanted >= 50 ? wanted : 90;
  }();
  return value;
}

std::vector<std::string> read_wrapper(const void* wrapper) {
  Wrapper fields;
  std::memcpy(&fields, wrapper, sizeof fields);
  if (fields.magic != kWrapperMagic) fail("a fatbin wrapper does not begin with its magic number");
  std::vector<std::span<const std::byte>> images;
  if (fields.version == 2 && fields.filename_or_images) {
    for (auto* image = static_cast<const std::byte* const*>(fields.filename_or_images); *image; ++image)
      images.emplace_back(*image, container_bytes(*image));
  } else if (fields.data) {
    images.emplace_back(fields.data, container_bytes(fields.data));
  }
  return read_containers(images);
}

std::vector<std::string> read_image(std::span<const std::byte> image) {
  if (image.size() >= kContainerHeaderBytes && load<std::uint32_t>(image.data()) == kContainerMagic)
    return read_containers({image.first(std::min(image.size(), container_bytes(image.data())))});
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  text.resize(std::strlen(text.c_str()));
  if (text.find(".version") == std::string::npos) fail("the image is neither a fatbin nor PTX");
  return {text};
}

}  // namespace sandbox::ptx
