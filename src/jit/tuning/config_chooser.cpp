#include "jit/tuning/config_chooser.h"

#include <sstream>

#include "jit/base/file_io.h"
#include "jit/base/fork_safe_map.h"
#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jit/engine/engine_parts.h"
#include "jit/source/source_digests.h"
#include "jit/tuning/tuning_files.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/error.h"
#include "jitstep/version.h"

namespace jitstep::jit {
namespace {

// In the order of precedence. The newest record of a file is at its end, so that each file is read in reverse.
std::vector<TuningRecord> all_records(const Settings& settings) {
  std::vector<TuningRecord> all;
  for (auto& [name, file] : record_sources(settings)) {
    warn_of_skipped_lines(file, name, settings.log);
    all.insert(all.end(), std::make_move_iterator(file.records.rbegin()),
               std::make_move_iterator(file.records.rend()));
  }
  return all;
}

std::string compiler_line(Engine& engine, const Target& target) {
  if (target.is_cuda()) return {};
  try {
    std::istringstream lines(compiler_of(engine, target).identity(target));
    for (std::string line; std::getline(lines, line);)
      if (line.find("version") != line.npos) return line.substr(0, line.find_last_not_of(' ') + 1);
    return {};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string template_digest(Engine& engine, const Plan& plan, const Target& target) {
  const Unit generated = unit(plan, default_kernel_config(plan, target), target);
  return code_digest(engine.preprocessed_text(generated.text, generated.name)).substr(0, 16);
}

RecordVersions versions_of(Engine& engine, const Plan& plan, const Target& target) {
  return {.jitstep = version(),
          .compiler = compiler_line(engine, target),
          .templates = template_digest(engine, plan, target)};
}

ConfigChooser::ConfigChooser(Engine& engine, Hardware hardware)
    : engine_(engine), hardware_(std::move(hardware)) {}
ConfigChooser::~ConfigChooser() = default;

// Reads the records without the lock, because a warning calls the program's log handler.
std::shared_ptr<const TunedConfigs> ConfigChooser::records() {
  const std::string now = file_stamp(user_records(engine_.settings()));
  {
    const std::lock_guard lock(mutex_);
    if (records_ && stamp_ == now) return records_;
  }
  auto fresh = std::make_shared<const TunedConfigs>(
      all_records(engine_.settings()), hardware_,
      [this](const Plan& plan) { return template_digest(engine_, plan, hardware_.target); });
  const std::lock_guard lock(mutex_);
  records_ = fresh;
  stamp_ = now;
  return fresh;
}

ConfigChoice ConfigChooser::choose(const Plan& plan, const WorkSize& size) {
  return records()->choose(plan, size);
}

std::vector<TuningRecord> ConfigChooser::known(const Plan& plan) {
  const auto all = records();
  std::vector<TuningRecord> out;
  for (const TuningRecord* const record : all->known(plan)) out.push_back(*record);
  return out;
}

std::optional<TuningRecord> ConfigChooser::exact(const Plan& plan, const WorkSize& size) {
  const auto all = records();
  const TuningRecord* const found = all->exact(plan, size);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

ConfigProvider recorded_configs(Engine& engine, Hardware hardware) {
  return [chooser = std::make_shared<ConfigChooser>(engine, std::move(hardware))](
             const Plan& plan, const WorkSize& size) { return chooser->choose(plan, size); };
}

ConfigProvider recorded_host_configs(Engine& engine, std::function<int()> threads) {
  return [&engine, threads = std::move(threads),
          all = std::make_shared<ForkSafeMap<int, ConfigProvider>>()](const Plan& plan,
                                                                      const WorkSize& size) {
    const int now = threads();
    const auto make = [&] { return recorded_configs(engine, host_hardware(now)); };
    return all->get(now, make)(plan, size);
  };
}

}  // namespace jitstep::jit
