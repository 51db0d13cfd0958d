#include "implementations.h"

#include <ATen/TensorIterator.h>
#include <jitstep/jitstep.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bound.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::json;

struct Chunk {
  Streams at;
  std::int64_t begin, end;
};

// Calls body(i) for each number in torch's threads. TensorIterator is compiled in libtorch, so it uses torch's thread
// pool.
void in_torch_threads(const torch::Tensor& numbers, const std::function<void(std::int64_t)>& body) {
  at::TensorIteratorConfig().add_const_input(numbers).build().for_each(
      [&](char** data, const std::int64_t* strides, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          body(*reinterpret_cast<std::int64_t*>(data[0] + i * strides[0]));
      },
      1);
}

// Processes the chunks of all tensors in one parallel loop, as a fused step does.
Implementation hand_written(const Loop& loop, const Tensors& parameters, torch::Dtype state,
                            int arrays) {
  constexpr std::int64_t kChunk = 1 << 15;
  auto slots = std::make_shared<Tensors>();
  auto chunks = std::make_shared<std::vector<Chunk>>();
  double state_bytes = 0;
  for (const auto& p : parameters) {
    TORCH_CHECK(p.is_cpu(), "the hand-written loops support only the CPU");
    Streams at{p.data_ptr(), p.grad().data_ptr()};
    for (int i = 0; i < arrays; ++i) {
      slots->push_back(torch::zeros(p.sizes(), state));
      at.state[static_cast<std::size_t>(i)] = slots->back().data_ptr();
      state_bytes += static_cast<double>(slots->back().nbytes());
    }
    for (std::int64_t begin = 0; begin < p.numel(); begin += kChunk)
      chunks->push_back({at, begin, std::min(begin + kChunk, p.numel())});
  }
  const torch::Tensor numbers = torch::arange(static_cast<std::int64_t>(chunks->size()));
  const auto step = [=] {
    in_torch_threads(numbers, [&](std::int64_t i) {
      const Chunk& chunk = (*chunks)[static_cast<std::size_t>(i)];
      loop(chunk.at, chunk.begin, chunk.end);
    });
    static_cast<void>(slots);  // keeps the memory of the chunks alive
  };
  return {"", step, state_bytes};
}

Implementation baseline_of(const Json& description, const Tensors& parameters) {
  const std::string state = description.at("state");
  const int arrays = description.at("arrays");
  const auto loop = bandwidth_baseline(dtype_name(parameters.at(0).scalar_type()), state, arrays);
  return hand_written(loop, parameters, state == "uint8" ? torch::kByte : parse_dtype(state),
                      arrays);
}

Implementation plain_adamw_of(const Tensors& parameters) {
  for (const auto& p : parameters)
    TORCH_CHECK(p.scalar_type() == torch::kFloat, "the hand-written AdamW supports only float32");
  return hand_written(plain_adamw, parameters, torch::kFloat, 2);
}

// A copy on the device, the bandwidth baseline for GPUs, because the hand-written loops are compiled only for the CPU.
Implementation copy_of(const Tensors& parameters) {
  std::int64_t bytes = 0;
  for (const auto& p : parameters) bytes += p.numel() * (3 * p.element_size() + 2 * 8) / 2;
  const auto from =
      torch::zeros({bytes}, torch::dtype(torch::kByte).device(parameters[0].device()));
  auto to = torch::empty_like(from);
  double elements = 0;
  for (const auto& p : parameters) elements += static_cast<double>(p.numel());
  return {"", [=]() mutable { to.copy_(from); }, 8 * elements};
}

double state_of_torch(const Tensors& parameters) {
  double bytes = 0;
  for (const auto& p : parameters) bytes += 2 * static_cast<double>(p.nbytes());
  return bytes;
}

Implementation torch_loop(const Tensors& parameters) {
  auto optimizer =
      std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-3));
  return {"", [optimizer] { optimizer->step(); }, state_of_torch(parameters)};
}

// torch's fused kernel, which only Python's AdamW(fused=True) calls.
Implementation torch_fused(const Tensors& parameters) {
  struct State {
    Tensors p, g, m, v, t;
  };
  auto s = std::make_shared<State>();
  for (const auto& p : parameters) {
    s->p.push_back(p.detach());
    s->g.push_back(p.grad());
    s->m.push_back(torch::zeros_like(s->p.back()));
    s->v.push_back(torch::zeros_like(s->p.back()));
    s->t.push_back(torch::zeros({}, p.device()));
  }
  return {"",
          [s] {
            torch::_foreach_add_(s->t, 1);
            at::_fused_adamw_(s->p, s->g, s->m, s->v, {}, s->t, 1e-3, 0.9, 0.999, 1e-2, 1e-8, false,
                              false);
          },
          state_of_torch(parameters)};
}

Implementation jitstep_of(const Json& spec, const Tensors& parameters) {
  const std::shared_ptr<Optimizer> optimizer = Optimizer::from_spec(parameters, spec.dump());
  optimizer->step();  // compiles, and makes the state
  return {"", [optimizer] { optimizer->step(); },
          static_cast<double>(optimizer->memory_report().state_bytes())};
}

Implementation by_kind(const Json& description, const Tensors& parameters) {
  const std::string kind = description.at("kind");
  if (kind == "baseline") return baseline_of(description, parameters);
  if (kind == "plain AdamW") return plain_adamw_of(parameters);
  if (kind == "copy") return copy_of(parameters);
  if (kind == "torch loop") return torch_loop(parameters);
  if (kind == "torch fused") return torch_fused(parameters);
  if (kind == "jitstep") return jitstep_of(description.at("spec"), parameters);
  throw std::invalid_argument("no implementation of the kind " + kind);
}

}  // namespace

double Implementation::median() const {
  std::vector<double> sorted = seconds;
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  return sorted[sorted.size() / 2];
}

std::string dtype_name(torch::Dtype dtype) {
  for (const char* name : {"float32", "bfloat16"})
    if (parse_dtype(name) == dtype) return name;
  TORCH_CHECK(false, "the benchmark has no parameters of ", dtype);
}

torch::Dtype parse_dtype(const std::string& name) {
  TORCH_CHECK(name == "float32" || name == "bfloat16", "the benchmark has no parameters of ", name);
  return name == "float32" ? torch::kFloat : torch::kBFloat16;
}

Tensors make_parameters(const std::vector<std::vector<std::int64_t>>& shapes, torch::Dtype dtype,
                        const torch::Device& device) {
  torch::manual_seed(1);
  const auto options = torch::dtype(dtype).device(device);
  Tensors parameters;
  for (const auto& shape : shapes) {
    parameters.push_back(torch::randn(shape, options).requires_grad_());
    parameters.back().mutable_grad() =
        torch::randn(shape, options).mul_(1.0 / 128);  // exactly, in every dtype
  }
  return parameters;
}

Implementation make_implementation(const Json& description, const Tensors& parameters) {
  Implementation made = by_kind(description, parameters);
  made.name = description.value("name", description.at("kind").get<std::string>());
  return made;
}

double bytes_of_step(const Implementation& implementation, const Tensors& parameters) {
  double bytes = 2 * implementation.state_bytes;
  for (const auto& p : parameters) bytes += 3 * static_cast<double>(p.nbytes());
  return bytes;
}

}  // namespace jitstep::bench
