// Fault kinds as plain numbers, for code that must not include the standard library's templates.
#pragma once

namespace sandbox::ptx {

// In the order of FaultKind; checked where both are known.
inline constexpr int kIllegalAddress = 0;
inline constexpr int kMisaligned = 1;
inline constexpr int kAssertion = 2;
inline constexpr int kTrap = 3;
inline constexpr int kDeadlock = 4;
inline constexpr int kUnsupported = 5;

}  // namespace sandbox::ptx
