// What elements read in addition to slots: inputs of a step, auxiliary state of their own entries, and scalars from the
// parameter's sizes.
#include <gtest/gtest.h>

#include "emulation/emulated_backend.h"
#include "jitstep/jit/error.h"
#include "support/plain_steps.h"

namespace jitstep::support {
using namespace emulation;
namespace {

// ---- inputs -------------------------------------------------------------------------------------

constexpr const char* kFollower = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::follower {
struct Slots {
  Signed m;
};
struct Inputs {
  Input first;
  Input second;
};
struct Result {
  real sum;
};
struct Reductions {
  Sum<DOMAIN, 1, Result> result;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) {
    e.m.next = e.first.given ? e.first.value : e.m.prev;
  }
  KHD static Reals<1> terms(Of<Result>, const auto& e, const auto&) { return {e.second.value}; }
  KHD static Result finalize(Of<Result>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = c.result.sum + (e.second.given ? real(1000) : real(0));
  }
};
}
)";

std::map<std::string, std::string> with_domain(std::string text, const std::string& name,
                                               const std::string& domain) {
  text.replace(text.find("DOMAIN"), 6, domain);
  return {{"rules/" + name + ".cuh", text}};
}

class OnBothTargets : public testing::TestWithParam<const char*> {
 protected:
  // Calls f(engine's templates, back end) for the CPU and for the emulation.
  template <class F>
  void on_each(const std::map<std::string, std::string>& texts, const F& f) {
    OwnTemplates own(texts);
    jit::CpuBackend cpu(own.engine);
    EmulatedBackend gpu(own.engine, 2, BlockOrder::kReverse, LaneOrder::kReverse);
    f(own, cpu);
    f(own, gpu);
  }
};

class Inputs : public OnBothTargets {};

constexpr std::int64_t kRows = 37, kColumns = 9;

TEST_P(Inputs, AreReadWhenTheyAreGiven) {
  const std::string domain = GetParam();
  on_each(with_domain(kFollower, "follower", domain), [&](OwnTemplates& own, jit::Backend& on) {
    const jit::OptionValues options("follower", own.catalog);
    PlainSteps<float> steps(own, on, plain_spec(options), options, {{kRows, kColumns}, {300}});
    std::vector<float> first(kRows * kColumns), second(300);
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i % 13);
    for (std::size_t i = 0; i < second.size(); ++i) second[i] = static_cast<float>(i % 7);
    steps.given = {{first.data(), nullptr}, {nullptr, second.data()}};
    steps.step(1);
    const auto m = [&](std::size_t tensor) { return steps.codes<float>(tensor, 0); };
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(m(0)[i], first[i]) << i;
      ASSERT_EQ(steps.p[0][i], 0) << i;
    }
    float sum = 0;
    for (const float x : second) sum += x;
    for (std::size_t i = 0; i < second.size(); ++i) {
      ASSERT_EQ(m(1)[i], 0) << i;
      ASSERT_EQ(steps.p[1][i], 1000 + (domain == "tensor" ? sum : second[i])) << i;
    }
    steps.given.clear();
    steps.step(2);  // the slot keeps the value of step 1
    for (std::size_t i = 0; i < first.size(); ++i) ASSERT_EQ(m(0)[i], first[i]) << i;
    for (std::size_t i = 0; i < second.size(); ++i) ASSERT_EQ(steps.p[1][i], 0) << i;
  });
}

// Each element of a vector is a column.
INSTANTIATE_TEST_SUITE_P(Domains, Inputs, testing::Values("tensor", "columns"),
                         [](const auto& one) { return std::string(one.param); });

// ---- auxiliary state ------------------------------------------------------------------------------

constexpr const char* kReader = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::reader {
struct AuxState {
  Entry<DOMAIN> most;  // initial: -1; elements
};
struct Most {
  real size;
};
struct Reductions {
  Max<DOMAIN, 1, Most> largest;
};
struct Rule {
  KHD static Reals<1> terms(Of<Most>, const auto& e, const auto&) {
    return {maximum(e.g, e.most.prev)};
  }
  KHD static Most finalize(Of<Most>, const Totals<1>& most, int64, const auto&, AuxState& m) {
    m.most.next = static_cast<real>(most[0]);
    return {m.most.next};
  }
  KHD static void update_param(auto& e, const auto&) { e.p = e.most.prev; }
};
}
)";

class OwnState : public OnBothTargets {};

// The number of an element's entry, and the number of entries.
std::int64_t entry_of(const std::string& domain, std::int64_t i) {
  return domain == "rows" ? i / kColumns : domain == "columns" ? i % kColumns : 0;
}

TEST_P(OwnState, IsThatOfTheStepBefore) {
  const std::string domain = GetParam();
  std::string text = kReader;
  text.replace(text.find("DOMAIN"), 6, domain);
  on_each(with_domain(text, "reader", domain), [&](OwnTemplates& own, jit::Backend& on) {
    const jit::OptionValues options("reader", own.catalog);
    PlainSteps<float> steps(own, on, plain_spec(options), options, {{kRows, kColumns}});
    std::vector<float> most(kRows * kColumns, -1);  // by entry
    for (int t = 1; t <= 3; ++t) {
      for (std::size_t i = 0; i < steps.g[0].size(); ++i)
        steps.g[0][i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(t) * 31) % 1009);
      steps.step(t);
      auto next = most;
      for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto entry = static_cast<std::size_t>(entry_of(domain, i));
        ASSERT_EQ(steps.p[0][at], most[entry]) << "step " << t << ", element " << i;
        next[entry] = std::max(next[entry], steps.g[0][at]);
      }
      most = next;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Domains, OwnState, testing::Values("rows", "columns", "tensor"),
                         [](const auto& one) { return std::string(one.param); });

// ---- sizes ----------------------------------------------------------------------------------------

const std::map<std::string, std::string> kMeasured = {{"rules/measured.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::measured {
struct Scalars {
  real code;
};
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, const Sizes& size) {
    double code = static_cast<double>(size.numel());
    const int64 digits[] = {size.dims(), size(0), size(1), size(-1), size(-9), size(9),
                            size.fan_in(), size.fan_out()};
    for (const int64 digit : digits) code = code * h.base + static_cast<double>(digit);
    return {static_cast<real>(code)};
  }
  KHD static void update_param(auto& e, const auto& c) { e.p = c.code; }
};
}
)"}};

std::map<std::string, std::string> measured() {
  auto texts = kMeasured;
  std::string& text = texts.begin()->second;
  text.replace(text.find("struct Scalars"), 0, "struct Hyper {\n  double base = 32;\n};\n");
  return texts;
}

double code_of(std::initializer_list<int> digits) {
  double code = 0;
  for (const int digit : digits) code = code * 32 + digit;
  return code;
}

class ParameterSizes : public OnBothTargets {};

TEST_F(ParameterSizes, AreThoseOfEachTensor) {
  on_each(measured(), [](OwnTemplates& own, jit::Backend& on) {
    const jit::OptionValues options("measured", own.catalog);
    jit::KernelSpec spec = plain_spec(options);
    spec.state.dtype = spec.gradient = jit::Dtype::float64;
    PlainSteps<double> steps(own, on, spec, options, {{7}, {2, 3}, {3, 2, 5}, {}});
    steps.step(1);
    EXPECT_EQ(steps.p[0], std::vector<double>(7, code_of({7, 1, 7, 1, 7, 1, 1, 1, 7})));
    EXPECT_EQ(steps.p[1], std::vector<double>(6, code_of({6, 2, 2, 3, 3, 1, 1, 3, 2})));
    EXPECT_EQ(steps.p[2], std::vector<double>(30, code_of({30, 3, 3, 2, 5, 1, 1, 10, 15})));
    EXPECT_EQ(steps.p[3], std::vector<double>(1, code_of({1, 1, 1, 1, 1, 1, 1, 1, 1})));
  });
}

TEST_F(ParameterSizes, OfAPartAreThoseOfTheWholeTensor) {
  on_each(measured(), [](OwnTemplates& own, jit::Backend& on) {
    const jit::OptionValues options("measured", own.catalog);
    jit::KernelSpec spec = plain_spec(options);
    spec.state.dtype = spec.gradient = jit::Dtype::float64;
    const jit::Plan plan = jit::resolve(spec, own.catalog);
    std::vector<double> p(4096), g(4096);
    const jit::StateStorage state(on, plan, options, {4096});
    jit::StepTensor part = state.tensor(p.data());
    part.offset = 4096;
    part.whole = 3 * 4096;
    EXPECT_THROW(jit::Step(on, {{plan, {part}}}), jit::Error) << "it needs the sizes";
    part.whole_sizes = {2, 4096};
    EXPECT_THROW(jit::Step(on, {{plan, {part}}}), jit::Error) << "of another tensor";
    part.whole_sizes = {3, 4096};
    jit::Step(on, {{plan, {part}}}).run({{.g = g.data()}}, {plan.at_step(options, 1)});
    const double code = code_of({3 * 4096, 2, 3, 4096, 4096, 1, 1, 4096, 3});
    EXPECT_EQ(p, std::vector<double>(4096, code));
  });
}

TEST_F(ParameterSizes, OfMoreDimensionsThanKernelsTakeAreRefused) {
  OwnTemplates own(measured());
  jit::CpuBackend cpu(own.engine);
  const jit::OptionValues options("measured", own.catalog);
  EXPECT_THROW(
      PlainSteps<float>(own, cpu, plain_spec(options), options, {{1, 1, 1, 1, 1, 1, 1, 2, 2}}),
      jit::Error);
}

}  // namespace
}  // namespace jitstep::support
