// The element types that are measured: their names, their sizes, and how they round.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace collectives {

struct ElementType {
  std::string_view name;   // as nccl-tests prints it
  std::string_view alias;  // as people say it
  ncclDataType_t nccl_type;
  std::size_t bytes;
};

// All types, in the order in which "all" runs them.
std::span<const ElementType> element_types();

// Rounds `values` to the type, writing packed elements to `packed` and what they stand for back to `values`.
void round_to(const ElementType& type, std::span<float> values, std::span<std::byte> packed);

// What packed elements stand for.
void widen(const ElementType& type, std::span<const std::byte> packed, std::span<float> values);

}  // namespace collectives
