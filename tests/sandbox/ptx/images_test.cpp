// Images load in every form nvcc stores them in; broken ones are refused with a reason.
#include "program.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

void check_image(const std::string& image) {
  INFO(image);
  Program program = Program::from_file(image);
  std::vector<int> values(300), expected(300);
  for (int at = 0; at < 300; ++at) {
    const auto place = static_cast<std::size_t>(at);
    values[place] = at * 11 - 500;
    const int first = values[place] + 100;
    expected[place] = ((first * 3 + 200) ^ (first * 5 + 300)) * 7 + 400 + 2;
  }
  const DeviceArray<int> from(values), to(300);
  program.launch("mix", threads(3, 128), from.data(), to.data(), 300);
  CHECK(to.values() == expected);
}

}  // namespace

TEST_CASE("Image.EveryCompressionLoads") {
  for (const char* image : {"images.ptx", "images_none.fatbin", "images_default.fatbin",
                            "images_speed.fatbin", "images_size.fatbin", "images_two.fatbin"})
    check_image(image);
}

TEST_CASE("Image.UnknownKernelsAndBrokenTextAreReported") {
  Program program = Program::from_file("images_default.fatbin");
  CHECK(program.module().kernel("no_such_kernel") == nullptr);
  for (const std::string text :
       {".version 8.0\n.target sm_80\n.visible .entry broken(\n", "not an image at all",
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry broken() { add.u32 %r1, %r2; ret; "
        "}\n"}) {
    INFO(text);
    bool refused = false;
    try {
      Program broken = Program::from_text(text);
      auto* kernel = broken.module().kernel("broken");
      if (kernel == nullptr) {
        refused = true;
      } else {
        sandbox::ptx::Launch launch;
        const auto fault = sandbox::ptx::run(*kernel, launch);
        refused = fault.has_value() && !fault->message.empty();
      }
    } catch (const Fault& fault) {
      refused = !fault.message.empty();
    }
    CHECK(refused);
  }
}

TEST_CASE("Image.KernelsTellTheirNeeds") {
  Program program = Program::from_file("memory.ptx");
  const auto attributes = sandbox::ptx::attributes(program.kernel("reverse_in_shared"));
  CHECK(attributes.static_shared_bytes == 1024);
  CHECK(attributes.ptx_version == 80);
  CHECK(sandbox::ptx::name(program.kernel("reverse_in_shared")) == "reverse_in_shared");
  Program bounded = Program::from_file("control.ptx");
  CHECK(sandbox::ptx::attributes(bounded.kernel("bounded")).max_threads_per_block == 64);
}
