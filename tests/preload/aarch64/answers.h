// Who answered a call.
#pragma once

inline constexpr int kFromNccl = 1;
inline constexpr int kFromUs = 2;
