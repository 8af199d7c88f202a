// The list of all cases, and how they name codecs.
#include "cases.h"

namespace sdp4bit::bench {

std::vector<Case> all_cases() {
  std::vector<Case> cases = gradient_cases();
  for (Case& each : weight_cases()) cases.push_back(std::move(each));
  return cases;
}

std::string describe(const Codec& codec) {
  const std::string bits = std::to_string(codec.bits);
  std::string text;
  switch (codec.coding) {
    case Coding::nearest:
      text = "int" + bits;
      break;
    case Coding::stochastic:
      text = "int" + bits + "-sr";
      break;
    case Coding::dithered:
      text = "dither" + bits;
      break;
    case Coding::companded:
      text = "compand" + bits;
      break;
  }
  return text + " g" + std::to_string(codec.group_size) +
         (codec.scale == ScaleType::float32 ? " fp32" : " bf16");
}

}  // namespace sdp4bit::bench
