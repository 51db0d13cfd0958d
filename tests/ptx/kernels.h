// Handwritten kernels that run on the PTX interpreter.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "support/ptx/machine.h"

namespace jitstep::tests {

/// A module with one kernel, `k`, of up to four pointers. At the start of its body they are in %rd1 ... %rd4, and
/// %tid.x is in %r1. Its other registers are %p, %rs, %r, %f, %rd (from 10 on), %fd.
inline std::string kernel(const std::string& body, const std::string& variables = "") {
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + variables +
         ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n"
         ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<33>;\n.reg .f32 %f<9>;\n"
         ".reg .b64 %rd<33>;\n.reg .f64 %fd<9>;\n"
         "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\n"
         "ld.param.u64 %rd4, [d];\nmov.u32 %r1, %tid.x;\n" +
         body + "\nret;\n}\n";
}

/// A device with memory, for consecutive launches.
class Device {
 public:
  explicit Device(const std::string& text)
      : program_(ptx::read_program(text, [this](const std::vector<std::byte>& image,
                                                const std::vector<ptx::Range>& variables) {
          const ptx::Address to = memory.allocate(0, image.size());
          for (const auto& [begin, end] : variables)
            memory.upload(to + begin, image.data() + begin, end - begin, here());
          return to;
        })) {}

  ptx::Address upload(const void* from, std::size_t bytes) {
    const ptx::Address to = memory.allocate(0, bytes);
    memory.upload(to, from, bytes, here());
    return to;
  }
  template <class T>
  ptx::Address upload(const std::vector<T>& values) {
    return upload(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> download(ptx::Address from, std::size_t count) {
    std::vector<T> values(count);
    memory.download(values.data(), from, count * sizeof(T), here());
    return values;
  }

  ptx::Counts launch(std::vector<ptx::Address> params, unsigned block = 32, unsigned grid = 1) {
    params.resize(4);
    order_.below = ++launches_;
    return ptx::execute({.program = program_,
                         .entry = *program_.entry("k"),
                         .grid = grid,
                         .block = block,
                         .params = params.data(),
                         .memory = memory,
                         .number = launches_,
                         .order = order_});
  }
  /// The fault of a launch. Empty if it succeeds.
  std::string fault(const std::vector<ptx::Address>& params, unsigned block = 32,
                    unsigned grid = 1) {
    const std::string problem = ptx::launch_problem(*program_.entry("k"), grid, block);
    if (!problem.empty()) return problem;
    try {
      launch(params, block, grid);
    } catch (const ptx::Fault& fault) {
      return fault.what;
    }
    return "";
  }

  ptx::Memory memory;

 private:
  ptx::Here here() {
    order_.below = ++launches_;
    return {.launch = launches_, .order = &order_};
  }

  std::uint32_t launches_ = 0;
  ptx::Order order_;
  ptx::Program program_;
};

}  // namespace jitstep::tests
