// Draws what a program runs on: processes, nodes and environment.
#pragma once

#include "chance.h"
#include "program.h"

namespace sdp4bit::model {

void draw_cluster(Chance& chance, Program& program);

}  // namespace sdp4bit::model
