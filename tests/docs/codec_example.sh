#!/usr/bin/env bash
# usage: codec_example.sh SOURCE_DIR CXX INCLUDE_DIR...: the patch of docs/adding_a_codec.md still applies, what it adds rounds
# as the page says, and the library's table takes the new name.
set -euo pipefail
source=$1 cxx=$2
shift 2
includes=()
for folder in "$@"; do includes+=(-isystem "$folder"); done
command -v git >/dev/null || { echo "SKIPPED: git, which applies the patch, is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$source" && tar -cf - --exclude=build --exclude=.git .) | tar -xf - -C "$work"
cd "$work"
git apply docs/adding_a_codec.patch || { echo "make docs/adding_a_codec.patch anew: the files that it changes have changed"; exit 1; }

cat >check.cpp <<'END'
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/fast_codec.h"
#include "kernels/reference_codec.h"
#include "plugin/option_values.h"

using namespace sdp4bit;

int main() {
  CodecName name{};
  if (!kGradientCodecs.parse("int4-tz", name) || name.coding != Coding::toward_zero) return 1;
  const Codec codec{.bits = 4, .group_size = 32, .coding = Coding::toward_zero, .hadamard = false};
  std::vector<float> values(kBlock);
  for (std::size_t i = 0; i < kBlock; ++i) values[i] = (static_cast<float>(i) - 15.5f) * 0.45f;
  std::vector<std::byte> segment(segment_bytes(kBlock, codec));
  reference::encode_segment(segment.data(), values, kBlock, codec, {});
  const std::vector<float> decoded = reference::decode_segment(segment.data(), kBlock, codec);
  float block[kBlock];
  std::memcpy(block, values.data(), sizeof block);
  std::uint32_t words[kCodeWords<4>];
  float scale = 0;
  std::memcpy(&scale, segment.data(), sizeof scale);
  encode_block<TowardZeroCoding<4>, 4>(words, block, scale, [] { return Philox4{}; });
  for (std::size_t i = 0; i < kBlock; ++i) {
    const int code = unpack_code(words[i / 8], static_cast<std::uint32_t>(i % 8), 4);
    if (std::fabs(decoded[i]) > std::fabs(values[i]) || std::fabs(decoded[i] - values[i]) >= scale) return 2;
    if (decode(code, scale) != decoded[i]) return 3;
  }
  std::puts("the codec of the example works");
}
END
"$cxx" -std=c++20 -Wall -Wextra -I. -Iinclude "${includes[@]}" check.cpp kernels/reference_codec.cpp plugin/option_values.cpp -o check
./check
