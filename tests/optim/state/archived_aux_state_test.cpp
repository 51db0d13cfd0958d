// Auxiliary state in archives: of a parameter, of its rows, and of the whole optimizer.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// Copies all entries except those whose name starts with `prefix`. Returns how many these are.
int copy_without(InputArchive& from, OutputArchive& to, const std::string& prefix) {
  int left_out = 0;
  for (const std::string& key : from.keys()) {
    InputArchive inner;
    c10::IValue value;
    if (key.starts_with(prefix)) {
      ++left_out;
    } else if (from.try_read(key, inner)) {
      OutputArchive copied(to.compilation_unit());
      left_out += copy_without(inner, copied, prefix);
      to.write(key, copied);
    } else if (from.try_read(key, value)) {
      to.write(key, value);
    }
  }
  return left_out;
}

InputArchive archive_without(const Optimizer& optimizer, const std::string& prefix) {
  OutputArchive out, part;
  optimizer.save(out);
  InputArchive whole = reread(out);
  EXPECT_GT(copy_without(whole, part, prefix), 0) << "an intact archive";
  return reread(part);
}

struct Case {
  const char *rule, *missing, *message;
};

class ArchivedAuxState : public testing::TestWithParam<Case> {};

TEST_P(ArchivedAuxState, IsNamedIfItIsMissingAndTheOptimizerDoesNotChange) {
  const auto& [rule, missing, message] = GetParam();
  const Tensors source = make_parameters(torch::kFloat32, {{7, 6}, {3}}), p = clones(source),
                twin = clones(source);
  Optimizer saved(rule, source), optimizer(rule, p), other(rule, twin);
  train(saved, source, 1, 3);
  train(optimizer, p, 1, 2);
  train(other, twin, 1, 2);
  InputArchive damaged = archive_without(saved, missing);
  const std::string error = argument_error([&] { optimizer.load(damaged); });
  EXPECT_HAS(error, message);
  EXPECT_HAS(error, "damaged");
  train(optimizer, p, 3, 5);
  train(other, twin, 3, 5);
  expect_equal(p, twin);
}

// A step that the device skips makes states, and leaves them at step 0.
void skip_a_step(Optimizer& optimizer, const Tensors& p) {
  optimizer.set_found_inf(torch::ones({}));
  train(optimizer, p, 1, 1);
  optimizer.set_found_inf({});
}

TEST_P(ArchivedAuxState, IsNotRequiredBeforeTheFirstStep) {
  const auto& [rule, missing, message] = GetParam();
  const Tensors source = make_parameters(torch::kFloat32, {{7, 6}, {3}}), p = clones(source);
  Optimizer skipped(rule, source), optimizer(rule, p);
  skip_a_step(skipped, source);
  ASSERT_EQ(skipped.state().size(), source.size());
  train(optimizer, p, 1, 2);
  InputArchive archive = archive_without(skipped, missing);
  EXPECT_NO_THROW(optimizer.load(archive));
  for (const auto& [key, state] : optimizer.state())
    EXPECT_EQ(static_cast<const ParamState&>(*state).step(), 0);
  const Tensors twin = clones(p);
  Optimizer fresh(rule, twin);
  train(optimizer, p, 3, 5);
  train(fresh, twin, 3, 5);
  expect_equal(p, twin);
}

INSTANTIATE_TEST_SUITE_P(
    Of, ArchivedAuxState,
    testing::Values(Case{"adafactor", "memory_",
                         "the 7 values of the auxiliary state \"row\" of the rule adafactor"},
                    Case{"adafactor", "memory_col", "the 6 values of the auxiliary state \"col\""},
                    Case{"novograd", "memory_", "of the rule novograd"},
                    Case{"prodigy", "memory_", "the checkpoint has 0 of the"}),
    [](const auto& test) {
      return std::string(test.param.rule) + "_" + std::to_string(test.index);
    });

// The optimizer's own shared state then starts as if it took the step itself.
TEST(AuxStateInArchives, SharedStateIsSavedWithStatesThatAnotherOptimizerStepped) {
  const Tensors p = make_parameters(), q = clones(p), r = clones(p);
  Optimizer stepped("prodigy", p), moved("prodigy", q), loaded("prodigy", r);
  train(stepped, p, 1, 2);
  for (std::size_t i = 0; i < p.size(); ++i)
    moved.state()[q[i].unsafeGetTensorImpl()] =
        stepped.state().at(p[i].unsafeGetTensorImpl())->clone();
  copy_through_archive(moved, loaded);
  train(moved, q, 3, 4);
  train(loaded, r, 3, 4);
  expect_equal(r, q);
}

constexpr const char* kLate = R"(// Descent whose rate may depend on the number of steps.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::late_memory {
struct Hyper {
  double lr = 1e-3;  // >= 0
};
struct Flags {
  bool counting = false;
};
struct Slots {
  Signed m;
};
struct AuxState {
  Entry<tensor, double> count;  // if counting
};
struct Scalars { real rate; };
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    if (F.counting) m.count.next = m.count.prev + 1;
    return {static_cast<real>(h.lr / (F.counting ? m.count.next : 1.0))};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = (e.m.prev + e.g) / 2; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.rate * e.m.next; }
};
}  // namespace jitstep::rules::late_memory
)";

TEST(AuxStateInArchives, AuxStateThatAnOptionAddsStartsWithTheNextStep) {
  load_rule(own_file("late_memory.cuh", kLate));
  const Tensors p = make_parameters(), q = clones(p);
  Optimizer optimizer("late_memory", p, GenericOptions(0.1)),
      loaded("late_memory", q, GenericOptions(0.1));
  train(optimizer, p, 1, 2);
  for (std::size_t i = 0; i < p.size(); ++i) q[i].detach().copy_(p[i].detach());
  static_cast<GenericOptions&>(optimizer.param_groups()[0].options()).set("counting", true);
  copy_through_archive(optimizer, loaded);
  train(optimizer, p, 3, 4);
  train(loaded, q, 3, 4);
  expect_equal(q, p);
}

}  // namespace
}  // namespace jitstep::tests
