// The state spaces of PTX.
#pragma once

#include <cstdint>

namespace sandbox::ptx {

enum class Space : std::uint8_t { generic, global, constant, shared, local, param };

}  // namespace sandbox::ptx
