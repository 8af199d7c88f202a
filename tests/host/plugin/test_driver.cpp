// What the log says about drivers: the one that is needed, the one that was found, and what to do.
#include "catch.h"
#include "plugin/driver.h"

using namespace sdp4bit;

TEST_CASE("Driver.TheTextNamesWhatIsNeededAndFound") {
  CHECK(driver_text(13000, 13020) == "CUDA 13.0, which needs driver 580 or later, found one for CUDA 13.2");
  CHECK(driver_text(12040, 12020) == "CUDA 12.4, which needs driver 525 or later, found one for CUDA 12.2");
  CHECK(driver_text(13000, 0) == "CUDA 13.0, which needs driver 580 or later, found none");
  CHECK(driver_text(14010, 13000) ==
        "CUDA 14.1, which needs a driver of that major version or later, found one for CUDA 13.0");
}

TEST_CASE("Driver.TheAdviceIsForWhatIsWrong") {
  const std::string too_old = driver_advice(13000, 12040);
  CHECK(too_old.find("install driver 580 or later") != std::string::npos);
  CHECK(too_old.find("build sdp4bit with CUDA 12 (docs/install.md)") != std::string::npos);
  CHECK(driver_advice(13000, 0).find("--gpus all") != std::string::npos);
  CHECK(driver_advice(13000, 13000).find("new enough") != std::string::npos);
  // Minor versions of one major version run on each other's drivers.
  CHECK(driver_advice(12090, 12000).find("new enough") != std::string::npos);
}
