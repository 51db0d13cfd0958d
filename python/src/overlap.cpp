#include "overlap.h"

#include <algorithm>
#include <span>
#include <string>

#include "exchange.h"
#include "jitstep/jit/error.h"

namespace jitstep::python {

void check_disjoint(const std::vector<jit::Elements>& parameters, const std::vector<int>& numbers) {
  jit::find_shared(parameters, [&](std::size_t i, std::size_t j) {
    const auto [first, second] = std::minmax(numbers[i], numbers[j]);
    throw jit::Error("parameters " + std::to_string(first) + " and " + std::to_string(second) +
                     " share memory. Give the optimizer one of them.");
  });
}

void check_disjoint(const nb::list& parameters, const std::vector<int>& numbers) {
  std::vector<TensorView> views;
  std::vector<int> with_memory;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView view = read(parameters[i]);
    if (view.data == nullptr || view.elements() == 0) continue;
    views.push_back(view);
    with_memory.push_back(numbers.at(i));
  }
  std::vector<jit::Elements> elements;
  for (const TensorView& view : views) {
    const auto dims = static_cast<std::size_t>(view.dims);
    elements.push_back(jit::elements_at(view.data, std::span(view.sizes).first(dims),
                                        std::span(view.strides).first(dims),
                                        static_cast<std::size_t>(view.bytes)));
  }
  check_disjoint(elements, with_memory);
}

}  // namespace jitstep::python
