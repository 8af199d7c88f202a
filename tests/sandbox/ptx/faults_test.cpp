// Wrong accesses, asserts and traps are reported with kernel, place, thread, address and nearest allocation.
#include <unistd.h>

#include <cstdio>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::string hexadecimal(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

/// The fault must be of that kind, name the kernel and hold every given part.
void check_fault(const std::optional<Fault>& fault, FaultKind kind, const std::vector<std::string>& parts) {
  REQUIRE(fault);
  INFO(fault->message);
  CHECK(fault->kind == kind);
  CHECK_FALSE(contains(fault->message, "\n"));
  for (const auto& part : parts) {
    INFO(part);
    CHECK(contains(fault->message, part));
  }
}

/// What a function writes to stdout, at the level of the file descriptor.
template <class Function>
std::string captured_output(const Function& function) {
  std::fflush(stdout);
  const int saved = dup(1);
  std::FILE* file = std::tmpfile();
  dup2(fileno(file), 1);
  function();
  std::fflush(stdout);
  dup2(saved, 1);
  close(saved);
  std::string text(static_cast<std::size_t>(lseek(fileno(file), 0, SEEK_END)), ' ');
  lseek(fileno(file), 0, SEEK_SET);
  const auto got = read(fileno(file), text.data(), text.size());
  std::fclose(file);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

TEST_CASE("Checker.OutOfBoundsNamesThreadAddressAndAllocation") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<int> array(16, 0);
  for (const int index : {16, 17, -1}) {
    const auto fault = program.try_launch("write_index", threads(2, 8), array.data(), index);
    check_fault(
        fault, FaultKind::illegal_address,
        {"write_index", hexadecimal(array.data() + index), "64 bytes", "device 0", "(3,0,0)", "line"});
  }
  // Guards are wide enough that near misses never hit another allocation.
  const DeviceArray<int> other(16, 0);
  check_fault(program.try_launch("read_index", threads(1, 8), array.data(), other.data(), 16),
              FaultKind::illegal_address, {"read_index", "(2,0,0)"});
  check_fault(program.try_launch("add_atomically", threads(1, 8), array.data(), 20),
              FaultKind::illegal_address, {"add_atomically"});
  check_fault(program.try_launch("write_null", threads(1, 1), static_cast<int*>(nullptr)),
              FaultKind::illegal_address, {"write_null"});
  check_fault(program.try_launch("write_null", threads(1, 1), reinterpret_cast<int*>(0x123456789000)),
              FaultKind::illegal_address, {"write_null", "0x123456789000"});
  int on_host = 0;
  check_fault(program.try_launch("write_null", threads(1, 1), &on_host), FaultKind::illegal_address,
              {"write_null"});
  CHECK(on_host == 0);
  CHECK_FALSE(program.try_launch("write_index", threads(2, 8), array.data(), 15));
}

TEST_CASE("Checker.SourceLinesWhereCompiledWithThem") {
  Program program = Program::from_file("faults_lineinfo.ptx");
  const DeviceArray<int> array(16, 0);
  check_fault(program.try_launch("write_index", threads(1, 8), array.data(), 100), FaultKind::illegal_address,
              {"faults.cu:6"});
}

TEST_CASE("Checker.PartlyOutsideIsOutside") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<char> from(40, 1);
  const DeviceArray<char> to(64, 0);
  // The third 16-byte read has only 8 bytes left.
  check_fault(program.try_launch("read_quads", threads(1, 3), from.data(), to.data()),
              FaultKind::illegal_address, {"read_quads", "(2,0,0)"});
  CHECK_FALSE(program.try_launch("read_quads", threads(1, 2), from.data(), to.data()));
}

TEST_CASE("Checker.MisalignedAccesses") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<char> from(64, 1), to(64, 0);
  check_fault(program.try_launch("read_quads", threads(1, 1), from.data() + 8, to.data()),
              FaultKind::misaligned_address, {"read_quads"});
  check_fault(program.try_launch("write_index", threads(1, 8), from.data() + 2, 1),
              FaultKind::misaligned_address, {"write_index"});
  check_fault(program.try_launch("misaligned_shared", threads(1, 128), 6, to.data()),
              FaultKind::misaligned_address, {"misaligned_shared"});
}

TEST_CASE("Checker.UseAfterFreeIsNamed") {
  Program program = Program::from_file("faults.ptx");
  int* stale = nullptr;
  {
    const DeviceArray<int> gone(16, 0);
    stale = gone.data();
  }
  check_fault(program.try_launch("write_index", threads(1, 8), stale, 0), FaultKind::illegal_address,
              {"write_index", "free"});
}

TEST_CASE("Checker.UninitializedReads") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<int> never_written(32), to(32, 0);
  check_fault(program.try_launch("read_all", threads(1, 32), never_written.data(), to.data()),
              FaultKind::illegal_address, {"read_all", "uninitialized"});
  // A kernel's own writes count.
  for (int index = 0; index < 8; ++index)
    program.launch("write_index", threads(1, 8), never_written.data(), index);
  CHECK_FALSE(program.try_launch("read_all", threads(1, 8), never_written.data(), to.data()));
  check_fault(program.try_launch("read_all", threads(1, 9), never_written.data(), to.data()),
              FaultKind::illegal_address, {"(8,0,0)"});
}

TEST_CASE("Checker.SharedAndLocalMemoryHaveBounds") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<int> to(8, 0);
  CHECK_FALSE(program.try_launch("write_shared", threads(1, 32), 31));
  check_fault(program.try_launch("write_shared", threads(1, 32), 1 << 16), FaultKind::illegal_address,
              {"write_shared", "shared"});
  CHECK_FALSE(program.try_launch("read_dynamic_shared", threads(1, 32, 128), 31, to.data()));
  check_fault(program.try_launch("read_dynamic_shared", threads(1, 32, 128), 32, to.data()),
              FaultKind::illegal_address, {"read_dynamic_shared", "shared"});
  check_fault(program.try_launch("read_dynamic_shared", threads(1, 32, 128), -1, to.data()),
              FaultKind::illegal_address, {"read_dynamic_shared"});
  check_fault(program.try_launch("write_local", threads(1, 1), 1 << 20, to.data()),
              FaultKind::illegal_address, {"write_local"});
}

TEST_CASE("Output.AssertsNameFileLineAndExpression") {
  for (const char* image : {"faults.ptx", "faults_debug.ptx"}) {
    Program program = Program::from_file(image);
    const DeviceArray<int> values(std::vector<int>{1, 2, 3, 0, 5});
    CHECK_FALSE(program.try_launch("must_be_positive", threads(1, 3), values.data()));
    check_fault(program.try_launch("must_be_positive", threads(1, 5), values.data()), FaultKind::assertion,
                {"must_be_positive", "faults.cu", "values[threadIdx.x] > 0", "(3,0,0)"});
  }
}

TEST_CASE("Output.TrapsStopTheKernel") {
  Program program = Program::from_file("faults.ptx");
  CHECK_FALSE(program.try_launch("trap_if", threads(1, 32), 99));
  check_fault(program.try_launch("trap_if", threads(1, 32), 17), FaultKind::trap, {"trap_if"});
}

TEST_CASE("Output.PrintfFormatsLikeTheHost") {
  for (const char* image : {"faults.ptx", "faults_debug.ptx"}) {
    Program program = Program::from_file(image);
    const std::string text = captured_output(
        [&] { program.launch("speak", threads(1, 64), -42, 2.5, static_cast<const char*>(nullptr)); });
    CHECK(text == "block 0 says -42  2.50 word z 123456789abc %\n");
    const std::string lines = captured_output([&] { program.launch("speak_in_parts", threads(1, 40)); });
    for (int at = 0; at < 40; ++at) CHECK(contains("\n" + lines, "\n" + std::to_string(at) + "\n"));
  }
}

TEST_CASE("Unknown.InstructionsAreRefusedByName") {
  Program program = Program::from_file("faults.ptx");
  const DeviceArray<int> to(32, 0);
  check_fault(program.try_launch("unknown_instruction", threads(1, 32), to.data()), FaultKind::unsupported,
              {"unknown_instruction", "mma.sync"});
  // Other kernels of the same image still run.
  CHECK_FALSE(program.try_launch("write_index", threads(1, 8), to.data(), 0));
}
