#include "kernel_check.h"

#include <jit/base/lines.h>
#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/codegen/probe.h>
#include <jit/codegen/unit.h>
#include <jit/step/check_rule_contract.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <utility>

#include "steps.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;

// A kernel to compile in one of the engines.
struct Job {
  Engine* engine;
  std::string text, name;
  Target target;
};

// Reports progress from any thread.
class Counter {
 public:
  Counter(const Progress& progress, std::size_t all) : progress_(progress), all_(all) {}
  void next(const std::string& what) {
    std::lock_guard lock(mutex_);
    progress_(done_++, all_, what);
  }

 private:
  const Progress& progress_;
  const std::size_t all_;
  std::mutex mutex_;
  std::size_t done_ = 0;
};

// Compiles all jobs in parallel. It ignores errors, because an engine stores an error and throws it again at the next
// request for the kernel.
void compile(const std::vector<Job>& jobs, const Progress& progress) {
  Counter counter(progress, jobs.size());
  in_parallel(jobs.size(), [&](std::size_t i) {
    const Job& job = jobs[i];
    counter.next(str_cat("compiling ", job.name, " for ", to_string(job.target)));
    try {
      job.engine->build(job.text, job.name, job.target);
    } catch (const Error&) {
      return;
    }
  });
}

Job job_of(Engine& engine, const Plan& plan, const KernelConfig& config, const Target& target) {
  const Unit generated = unit(plan, config, target);
  return {&engine, generated.text, generated.name, target};
}

Job cpu_job(Engine& engine, const Plan& plan) {
  return job_of(engine, plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
}

Job gpu_job(Engine& engine, const Plan& plan, const Target& target) {
  return job_of(engine, plan, default_kernel_config(plan, target), target);
}

class KernelCheck {
 public:
  KernelCheck(const Candidate& candidate, Workbenches& benches)
      : candidate_(candidate), benches_(benches) {
    report_.name = candidate.name;
    report_.plan = kernel_of(candidate.steps, benches.plain.catalog);
    report_.state = state_bytes(*report_.plan, options_of(candidate.steps, benches.plain.catalog));
  }

  const std::string& name() const { return report_.name; }

  // Measures the codec's round-trip error, if this kernel does so. Returns whether the error is below the limit.
  bool measure() {
    if (!candidate_.measures_codec) return true;
    const CodecChoice& codec = *candidate_.steps.spec.state.slots[0];
    if (!attempt([&] {
          report_.round_trips = round_trips(codec, benches_.plain);
          return "";
        })) {
      unmeasured_ = std::exchange(report_.problems, {});  // the CPU's compiler may find the cause
      return true;
    }
    return is_precise();
  }

  Job first_job() { return cpu_job(benches_.plain.engine, *report_.plan); }

  // Builds the first job. Then checks the contract of the rule's functions.
  void start() {
    build(first_job());
    if (report_.problems.empty()) report_.problems = unmeasured_;
    if (!report_.problems.empty()) return;
    report_.keeps_contract = attempt([&] {
      check_rule_contract(poisoned_plan(), benches_.poisoned.engine);
      return "";
    });
  }

  // The kernels that run() needs.
  std::vector<Job> other_jobs(const std::vector<Target>& targets) {
    if (!report_.keeps_contract) return {};
    const Plan& plan = *report_.plan;
    std::vector<Job> jobs;
    for (const Target& target : targets)
      jobs.push_back(gpu_job(benches_.plain.engine, plan, target));
    if (!*report_.keeps_contract) return jobs;
    for (const Way& way : ways(plan))
      jobs.push_back(job_of(benches_.plain.engine, plan, way.config, Target::emulated()));
    jobs.push_back(cpu_job(benches_.poisoned.engine, poisoned_plan()));
    return jobs;
  }

  void run(const std::vector<Target>& targets) {
    if (!report_.keeps_contract) return;
    for (const Target& target : targets)
      build(gpu_job(benches_.plain.engine, *report_.plan, target));
    if (!*report_.keeps_contract) return;  // unset values differ between back ends in any case
    report_.keeps_contract = attempt([&] { return difference_of_poison(candidate_, benches_); });
    if (!*report_.keeps_contract) return;
    report_.same_bits =
        attempt([&] { return difference_under_emulation(candidate_, benches_.plain); }, "bits");
    attempt([&] {
      const Minimization found = minimize_quadratic(candidate_, benches_.plain);
      if (!found.warning.empty()) report_.warnings.push_back(found.warning);
      return found.problem;
    });
  }

  KernelReport report() && { return std::move(report_); }

 private:
  Plan poisoned_plan() const { return kernel_of(candidate_.steps, benches_.poisoned.catalog); }

  // Reports round-trip errors above the limit. A codec may declare `lossy: WHY` in its leading comment. An error above
  // the limit is then only a warning.
  bool is_precise() {
    const std::string& codec = candidate_.steps.spec.state.slots[0]->name;
    const std::string& comment = benches_.plain.catalog.codec(codec).description;
    const bool declared = comment.find("lossy: ") != comment.npos;
    bool right = true;
    for (const RoundTrip& trip : report_.round_trips)
      if (const std::string problem = problem_of(trip); problem.empty())
        continue;
      else if (declared && std::isfinite(trip.loss))
        report_.warnings.push_back(problem);
      else
        right = attempt([&] { return problem; }, "round trip of " + trip.slot);
    return right;
  }

  // Calls `check`, and reports the message that it returns or the exception that it throws. Returns whether there was
  // neither.
  template <class Check>
  bool attempt(const Check& check, const std::string& group = "") {
    const auto report = [&](const std::string& what, const std::string& details = "") {
      report_.problems.push_back({what, details, group.empty() ? what : group});
    };
    try {
      const std::string found = check();
      if (found.empty()) return true;
      report(found);
    } catch (const CompileError& error) {
      report(first_line(error.what()), str_cat(error.what(), "\n", error.log()));
    } catch (const std::exception& error) {
      report(error.what());
    }
    return false;
  }

  void build(const Job& job) {
    TargetReport target{.target = job.target};
    target.compiled = attempt([&] {
      const auto built = job.engine->build(job.text, job.name, job.target);
      target.compile_ms = built->compile_ms;
      target.from_cache = built->from_cache;
      target.entries = built->binary.resources;
      return "";
    });
    for (const Resources& entry : target.entries)
      if (const int spilled = entry.spill_load_bytes + entry.spill_store_bytes; spilled > 0)
        report_.warnings.push_back(str_cat("on ", to_string(job.target), ", ", entry.entry,
                                           " spills ", spilled,
                                           " bytes of registers, which may make it slow"));
    report_.targets.push_back(std::move(target));
  }

  const Candidate& candidate_;
  Workbenches& benches_;
  KernelReport report_;
  std::vector<Problem> unmeasured_;  // why there is no round-trip error
};

// Returns whether the round-trip errors of the codec are below the limit.
bool measure(std::vector<KernelCheck>& checks, Workbench& plain, const Progress& progress) {
  add_round_trip_rule(plain);
  Counter counter(progress, checks.size());
  std::atomic<bool> right = true;
  in_parallel(checks.size(), [&](std::size_t i) {
    counter.next("measuring " + checks[i].name());
    if (!checks[i].measure()) right = false;
  });
  return right;
}

// Compiles in two parts, because a kernel that does not compile for the CPU or breaks the contract needs few others.
void run(std::vector<KernelCheck>& checks, const std::vector<Target>& targets,
         const Progress& progress) {
  std::vector<Job> first, others;
  for (KernelCheck& check : checks) first.push_back(check.first_job());
  compile(first, progress);
  in_parallel(checks.size(), [&](std::size_t i) { checks[i].start(); });
  for (KernelCheck& check : checks)
    for (Job& job : check.other_jobs(targets)) others.push_back(std::move(job));
  compile(others, progress);
  Counter counter(progress, checks.size());
  in_parallel(checks.size(), [&](std::size_t i) {
    counter.next("stepping " + checks[i].name());
    checks[i].run(targets);
  });
}

}  // namespace

std::vector<KernelReport> check_kernels(const std::vector<Candidate>& candidates,
                                        const std::vector<Target>& targets, Workbenches& benches,
                                        const Progress& progress) {
  std::vector<KernelCheck> checks;
  for (const Candidate& candidate : candidates) checks.emplace_back(candidate, benches);
  if (measure(checks, benches.plain, progress)) run(checks, targets, progress);
  std::vector<KernelReport> reports;
  for (KernelCheck& check : checks) reports.push_back(std::move(check).report());
  return reports;
}

}  // namespace jitstep::tool::check
