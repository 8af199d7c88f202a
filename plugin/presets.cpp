// The values of each preset, a column each.
#include "plugin/presets.h"

#include "plugin/option_values.h"

namespace sdp4bit {

void apply_preset(Preset preset, Config& config) {
  config.preset = preset;
  switch (preset) {
    case Preset::standard: {
      const Config usual;
      config.codec_inter = usual.codec_inter;
      config.codec_intra = usual.codec_intra;
      config.gradient_group = usual.gradient_group;
      config.scale = usual.scale;
      config.codec_weight = usual.codec_weight;
      config.weight_group = usual.weight_group;
      return;
    }
    case Preset::paper:
      config.codec_inter = {.bits = 4, .coding = Coding::stochastic};
      config.codec_intra = {.bits = 8, .coding = Coding::stochastic};
      config.gradient_group = 128;
      config.scale = ScaleType::float32;
      config.codec_weight = {.bits = 4, .coding = Coding::nearest};
      config.weight_group = 2048;
      return;
  }
}

std::string preset_text(const Config& config) {
  Config preset;
  apply_preset(config.preset, preset);
  const bool same = config.codec_inter == preset.codec_inter && config.codec_intra == preset.codec_intra &&
                    config.gradient_group == preset.gradient_group && config.scale == preset.scale &&
                    config.codec_weight == preset.codec_weight && config.weight_group == preset.weight_group;
  return kPresets.print(config.preset) + (same ? "" : ", changed");
}

}  // namespace sdp4bit
