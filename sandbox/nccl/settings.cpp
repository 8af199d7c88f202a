// Reads the environment of the stand-in.
#include "sandbox/nccl/settings.h"

#include <cstdlib>
#include <sstream>
#include <string_view>

#include "sandbox/nccl/failure.h"

namespace sandbox::nccl {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// A whole number that takes the whole text.
long number(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const long result = std::strtol(value.c_str(), &end, 10);
  require(!value.empty() && *end == '\0', ncclInvalidUsage, name + "=" + value + " is not a number");
  return result;
}

std::vector<std::string> split(const std::string& whole, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(whole);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Fault parse_fault(const std::string& whole) {
  const size_t colon = whole.find(':');
  const std::string kind = whole.substr(0, colon);
  Fault fault;
  if (kind == "delay") {
    fault.kind = Fault::Kind::delay;
  } else if (kind == "fail") {
    fault.kind = Fault::Kind::fail;
  } else if (kind == "exit") {
    fault.kind = Fault::Kind::exit;
  } else {
    throw Failure{ncclInvalidUsage, "SANDBOX_NCCL_FAULT: " + kind + " is none of delay, fail, exit"};
  }
  for (const std::string& pair : split(colon == std::string::npos ? "" : whole.substr(colon + 1), ',')) {
    const size_t equal = pair.find('=');
    const std::string key = pair.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : pair.substr(equal + 1);
    if (key == "comm") {
      fault.communicator = value;
    } else if (key == "rank") {
      fault.rank = static_cast<int>(number(key, value));
    } else if (key == "call") {
      fault.call = static_cast<uint64_t>(number(key, value));
    } else if (key == "ms") {
      fault.milliseconds = static_cast<int>(number(key, value));
    } else if (key == "code") {
      fault.code = static_cast<ncclResult_t>(number(key, value));
    } else {
      throw Failure{ncclInvalidUsage,
                    "SANDBOX_NCCL_FAULT: " + key + " is none of call, rank, ms, code, comm"};
    }
  }
  require(fault.call > 0, ncclInvalidUsage,
          "SANDBOX_NCCL_FAULT: " + whole + " names no call (counted from 1)");
  return fault;
}

Settings read() {
  Settings result;
  result.strict = variable("SANDBOX_NCCL_STRICT") != "0";
  if (const std::string seconds = variable("SANDBOX_NCCL_TIMEOUT"); !seconds.empty()) {
    char* end = nullptr;
    const double value = std::strtod(seconds.c_str(), &end);
    if (*end == '\0' && value > 0) {
      result.timeout = result.init_timeout = value;
    } else {
      complain("SANDBOX_NCCL_TIMEOUT=" + seconds + " is not a number of seconds above 0; 20 in use");
    }
  }
  const std::string traffic = variable("SANDBOX_NCCL_TRAFFIC");
  result.print_traffic = !traffic.empty() && traffic != "0";
  const std::string debug = variable("NCCL_DEBUG");
  result.informs = debug == "INFO" || debug == "TRACE";
  result.verbose = debug == "WARN" || result.informs;
  result.nodes = variable("SANDBOX_NODES");
  result.host_id = variable("NCCL_HOSTID");
  try {
    result.faults = parse_faults(variable("SANDBOX_NCCL_FAULT"));
  } catch (const Failure& failure) {
    complain(failure.text + "; no fault is planted");
  }
  return result;
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  for (const std::string& part : split(text, ';')) {
    if (!part.empty()) faults.push_back(parse_fault(part));
  }
  return faults;
}

const Settings& settings() {
  static const Settings once = read();
  return once;
}

}  // namespace sandbox::nccl
