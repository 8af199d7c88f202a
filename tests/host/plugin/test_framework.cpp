// DeepSpeed is recognized by its launcher, its command line or its operators, and by nothing that merely lies
// next to it.
#include <string>
#include <vector>

#include "catch.h"
#include "plugin/framework.h"

namespace sdp4bit {
namespace {

using Texts = std::vector<std::string>;

bool found(const Texts& variables, const Texts& arguments = {}, const Texts& objects = {}) {
  return !find_deepspeed({.variables = variables, .arguments = arguments, .loaded_objects = objects}).empty();
}

TEST_CASE("Framework.DeepSpeedShowsInVariablesCommandLineAndOperators") {
  CHECK(found({"ACCELERATE_USE_DEEPSPEED=true"}));
  CHECK(found({"DEEPSPEED_TIMEOUT=30"}));
  CHECK(found({"DS_ACCELERATOR=cuda"}));
  CHECK(found({"DS_BUILD_FUSED_ADAM=1"}));
  CHECK(found({}, {"python", "train.py", "--deepspeed", "zero3.json"}));
  CHECK(found({}, {"python", "train.py", "--deepspeed_config=zero3.json"}));
  CHECK(found({}, {}, {"/opt/venv/lib/python3.11/site-packages/deepspeed/ops/adam/fused_adam_op.so"}));
}

TEST_CASE("Framework.WhatLiesNextToItSaysNothing") {
  CHECK_FALSE(found({"RANK=0", "PATH=/home/me/deepspeed/bin", "PWD=/work/DeepSpeed", "DS_NAME=x"}));
  CHECK_FALSE(found({"ACCELERATE_USE_DEEPSPEED=false"}));
  CHECK_FALSE(found({}, {"python", "train.py", "--fsdp"}, {"/lib/libtorch_cuda.so", ""}));
}

}  // namespace
}  // namespace sdp4bit
