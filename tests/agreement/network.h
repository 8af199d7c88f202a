// What happens when the next operation of the communicator runs on all ranks at once.
#pragma once

#include "choices.h"
#include "rank.h"
#include "world.h"

namespace agreement {

/// Whether what an operation says reaches a host.
[[nodiscard]] bool says_something(const Operation& operation);
/// All ranks have issued their next operation.
[[nodiscard]] bool can_run(const World& world);
/// Runs it: the choices are what the data of each rank say. Throws Violation.
void run_operation(World& world, const Setting& setting, Choices& choices);

}  // namespace agreement
