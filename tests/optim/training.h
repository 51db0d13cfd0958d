// Helpers that the front end's tests share: a network with fixed weights, gradients, comparisons.
#pragma once

#include <gtest/gtest.h>
#include <jitstep/jitstep.h>
#include <torch/optim.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/template_store.h"
#include "support/own_folder.h"

namespace jitstep::tests {

using Tensors = std::vector<torch::Tensor>;

/// Parameters of several shapes with fixed values, leaves that require a gradient.
inline Tensors make_parameters(torch::Dtype dtype = torch::kFloat32,
                               std::vector<std::vector<std::int64_t>> shapes = {{5, 3}, {3}, {}}) {
  torch::manual_seed(7);
  Tensors parameters;
  for (const auto& shape : shapes)
    parameters.push_back(torch::randn(shape, dtype).set_requires_grad(true));
  return parameters;
}

inline Tensors clones(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors)
    copies.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  return copies;
}

/// A leaf with the tensor's values, in the same memory.
inline torch::Tensor leaf(const torch::Tensor& tensor) { return tensor.detach().requires_grad_(); }

/// The state of one parameter. `State`: the class of its rule, such as AdamWParamState.
template <class State = ParamState>
State& state_of(const torch::optim::Optimizer& optimizer, const torch::Tensor& p) {
  return static_cast<State&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
}

/// Sets the gradients of one step. Equal step numbers give equal gradients.
inline void set_gradients(const Tensors& parameters, int step) {
  torch::manual_seed(1000 + step);
  for (const auto& p : parameters) p.mutable_grad() = torch::randn_like(p.detach());
}

template <class Optimizer>
void train(Optimizer& optimizer, const Tensors& parameters, int first, int last) {
  for (int step = first; step <= last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

inline void expect_close(const Tensors& a, const Tensors& b, double rtol, double atol) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::allclose(a[i], b[i], rtol, atol))
        << "parameter " << i << " differs by " << (a[i] - b[i]).abs().max().item<double>();
}

inline void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

/// The rules or codecs that ship. It loads its own catalog, because earlier tests may add to the default one.
inline std::vector<std::string> shipped(jit::Manifest::Kind kind) {
  jit::TemplateStore store;
  return jit::Catalog(store).names(kind);
}

/// Runs `action`, expects a c10::Error and returns its first line.
inline std::string argument_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "no c10::Error";
  return "";
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

/// Collects torch's warnings while it exists.
struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { all += warning.msg() + "\n"; }

  std::string all;
  c10::WarningUtils::WarningHandlerGuard guard{this};
};

/// The content of a file that exists. A missing one would be the empty text, which every text has.
inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << "cannot read " << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Writes a file for this process alone. Only its owner may write to it, as `load_rule` requires.
inline std::string own_file(const std::string& name, const std::string& content) {
  static const OwnFolder folder;
  const std::string path = folder.path + "/" + name;
  std::ofstream(path, std::ios::trunc) << content;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  return path;
}

/// Such a copy of a file in examples/.
inline std::string example_file(const std::string& name) {
  return own_file(name, text_of_file(JITSTEP_SOURCE_DIR "/examples/" + name));
}

template <class From, class To>
void copy_through_archive(const From& from, To& to) {
  std::stringstream stream;
  torch::save(from, stream);
  torch::load(to, stream);
}

/// The archive, as it would be read from a file.
inline torch::serialize::InputArchive reread(torch::serialize::OutputArchive& written) {
  std::stringstream stream;
  written.save_to(stream);
  torch::serialize::InputArchive read;
  read.load_from(stream);
  return read;
}

/// As copy_through_archive(), for what has serialize(), but no operator << of archives: options and states.
template <class From, class To>
void serialize_through_archive(const From& from, To& to) {
  torch::serialize::OutputArchive written;
  from.serialize(written);
  torch::serialize::InputArchive read = reread(written);
  to.serialize(read);
}

}  // namespace jitstep::tests
