// jitstep doctor: finds what jitstep needs on this machine, and tells how to install what is missing.
#include <jit/base/lines.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/cache/disk_cache.h>
#include <jit/codegen/unit.h>
#include <jit/compiler/host_compiler.h>
#include <jit/compiler/nvrtc_library.h>
#include <jit/engine/cuda_driver.h>
#include <jit/tuning/tuning_files.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "inspect/disassembler.h"
#include "json_output.h"
#include "machine_records.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

constexpr const char* kFooter =
    "Exit status: 0 if kernels compile for the CPU and for every GPU of this machine, 1 if "
    "something\n"
    "that this needs is missing. A missing optional tool is a note and does not change the status.";

// The result of one check.
struct Finding {
  enum class State { good, note, missing };

  std::string what;
  State state = State::good;
  std::string message;  // what was found, or what to do
};

constexpr const char* kStates[] = {"ok", "note", "missing"};

const char* state_name(Finding::State state) { return kStates[static_cast<int>(state)]; }

Finding found(const char* what, const std::string& message) {
  return {what, Finding::State::good, message};
}

// Compiles a kernel that programs use, because a compiler that compiles an empty function may still reject the
// templates.
void compile_a_kernel(Settings settings) {
  settings.cache_dir = settings.cache_readonly = "";
  settings.log = LogLevel::off;
  const Plan plan =
      resolve({.rule = "adamw", .state = {{CodecChoice{"fp32"}, CodecChoice{"fp32"}, {}}}});
  const Unit generated = unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
  Engine(settings).kernel(generated.text, generated.name, Target::cpu());
}

Finding compiler(const Settings& settings) {
  HostCompiler host(settings);
  try {
    const std::string identity = host.identity(Target::cpu());
    const std::size_t version =
        std::min(identity.find("gcc version"), identity.find("clang version"));
    compile_a_kernel(settings);
    return found("compiler",
                 str_cat(host.program(), ", ",
                         version == identity.npos ? "" : first_line(identity.substr(version))));
  } catch (const CompileError& error) {
    return {"compiler", Finding::State::missing,
            str_cat(host.program(), " does not compile AdamW's kernel: ", first_line(error.what()),
                    ". Set JITSTEP_CXX to another compiler.")};
  } catch (const Error& error) {
    return {"compiler", Finding::State::missing, first_line(error.what())};
  }
}

// The GPUs of this machine.
struct Gpus {
  std::vector<CudaDevice> devices;
  std::string problem;  // why there is no driver; empty if there is one
};

Gpus gpus() {
  Gpus here;
  try {
    CudaDriver& driver = cuda_driver();
    for (int i = 0; i < driver.device_count(); ++i) here.devices.push_back(driver.device(i));
  } catch (const Error& error) {
    here.problem = first_line(error.what());
  }
  return here;
}

// NVRTC is needed only if there is a GPU.
Finding nvrtc(const Settings& settings, bool needed) {
  std::string problem;
  const auto library = find_nvrtc(settings, installed_driver_version(), problem);
  if (!library) return {"NVRTC", needed ? Finding::State::missing : Finding::State::note, problem};
  return found("NVRTC", str_cat(library->version(), " in ",
                                library->path.empty() ? "the loader's own folders" : library->path,
                                ", sm_", library->archs.front(), " to sm_", library->archs.back()));
}

Finding driver(const Gpus& here) {
  if (!here.problem.empty()) return {"driver", Finding::State::note, here.problem};
  return found("driver", str_cat("CUDA ", installed_driver_version() / 1000, ".",
                                 installed_driver_version() % 1000 / 10));
}

std::vector<Finding> devices(const Gpus& here) {
  std::vector<Finding> all;
  for (const CudaDevice& gpu : here.devices)
    all.push_back(found("GPU", str_cat("cuda:", gpu.ordinal, ", sm_", gpu.sm, ", ",
                                       gpu.multiprocessors, " multiprocessors")));
  if (all.empty())
    all.push_back(
        {"GPU", Finding::State::note, "none found. GPU kernels can be compiled without one."});
  return all;
}

Finding disassembler() {
  try {
    return found("nvdisasm", inspect::find_nvdisasm());
  } catch (const Error& error) {
    return {"nvdisasm", Finding::State::note, error.what()};
  }
}

// The entries of a cache folder: how many there are, and how many cannot be used.
Finding entries_in(const char* what, const std::string& folder,
                   const std::vector<ListedEntry>& entries) {
  const auto unused = std::count_if(entries.begin(), entries.end(), [](const ListedEntry& entry) {
    return !entry.problem.empty();
  });
  std::uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) bytes += entry.file.bytes;
  const auto used = static_cast<std::ptrdiff_t>(entries.size()) - unused;
  return {
      what, unused == 0 ? Finding::State::good : Finding::State::note,
      str_cat(folder, ", ", counted(used, "entry", "entries"), ", ", counted(bytes, "byte"),
              unused == 0 ? "" : str_cat(", ", unused, " unusable. Run `jitstep cache verify`."))};
}

std::vector<ListedEntry> entries_of_layer(const Settings& settings, bool readonly) {
  std::vector<ListedEntry> entries = DiskCache(settings).list(true);
  std::erase_if(entries, [&](const ListedEntry& entry) { return entry.readonly != readonly; });
  return entries;
}

Finding cache(const Settings& settings) {
  if (settings.cache_dir.empty())
    return {"cache", Finding::State::note,
            "JITSTEP_CACHE_DIR, XDG_CACHE_HOME and HOME name no folder, so kernels are cached in "
            "memory only"};
  auto problem = make_own_folder(settings.cache_dir);
  if (!problem && ::access(settings.cache_dir.c_str(), W_OK) != 0)
    problem = str_cat("cannot write to ", settings.cache_dir);
  if (problem)
    return {"cache", Finding::State::missing,
            str_cat(*problem, ". Set JITSTEP_CACHE_DIR to another folder.")};
  return entries_in("cache", settings.cache_dir, entries_of_layer(settings, false));
}

Finding readonly_layer(const Settings& settings) {
  if (const auto problem = folder_problem(settings.cache_readonly, Trust::own_or_root))
    return {"read-only cache", Finding::State::missing, *problem};
  return entries_in("read-only cache", settings.cache_readonly, entries_of_layer(settings, true));
}

// A file of tuning records: how many match this machine, and its errors.
Finding records_in(const RecordSource& source, const std::vector<Hardware>& here) {
  const auto& all = source.file.records;
  const auto count = [&](const auto& same) {
    return std::count_if(all.begin(), all.end(), [&](const TuningRecord& record) {
      return std::any_of(here.begin(), here.end(),
                         [&](const Hardware& one) { return same(record.hardware, one); });
    });
  };
  const auto here_count = count(same_machine);
  const auto alike = count([](const Hardware& one, const Hardware& other) {
    return one.target == other.target && one.architecture == other.architecture;
  });
  const auto unfinished = std::count_if(
      all.begin(), all.end(), [](const TuningRecord& record) { return !record.complete; });
  std::string message = str_cat(source.name, ", ", counted(all.size(), "record"), ", ", here_count,
                                " of this machine");
  if (alike > here_count)
    message += str_cat(", ", alike - here_count,
                       " of its architecture (for example with fewer processors)");
  if (unfinished > 0) message += str_cat(", ", unfinished, " of unfinished tuning");
  if (!source.file.newer.empty())
    message += str_cat(", ", source.file.newer.size(), " of a newer jitstep");
  const auto& problems = source.file.problems;
  if (problems.empty()) return found("records", message);
  return {"records", Finding::State::note,
          str_cat(message, ", ", problems.size(), " skipped. The first: ", problems.front())};
}

std::vector<Finding> records(const Settings& settings) {
  const std::vector<Hardware> here = hardware_here();
  std::vector<Finding> all;
  for (const RecordSource& source : record_sources(settings))
    all.push_back(records_in(source, here));
  if (all.empty())
    all.push_back({"records", Finding::State::note,
                   "no kernel is tuned on this machine. Run `jitstep tune`."});
  return all;
}

// Reads every file, because a folder of templates may contain invalid files.
Finding templates(const Settings& settings) {
  const Catalog& catalog = default_catalog();
  std::size_t read = 0;
  try {
    for (const auto& name : catalog.names(Manifest::Kind::rule))
      read += catalog.rule(name).name == name;
    for (const auto& name : catalog.names(Manifest::Kind::codec))
      read += catalog.codec(name).name == name;
    for (const auto& name : catalog.names(Manifest::Kind::weights))
      read += catalog.weights(name).name == name;
  } catch (const Error& error) {
    return {"templates", Finding::State::missing, first_line(error.what())};
  }
  return found(
      "templates",
      str_cat(read, " rules, codecs and weight formats, ",
              settings.templates.empty() ? "built in" : "with those of " + settings.templates));
}

// Environment variables that change which kernels run, or write files.
std::vector<Finding> variables(const Settings& settings) {
  std::vector<Finding> all;
  const auto add = [&](const char* name, bool set, const char* what) {
    if (set) all.push_back({name, Finding::State::note, what});
  };
  add("JITSTEP_OVERRIDE", !settings.override_folder.empty(),
      "edited kernels replace generated ones");
  add("JITSTEP_DUMP", !settings.dump_folder.empty(), "every kernel is written to this folder");
  add("JITSTEP_CHECK", settings.check, "kernels check rules for unset values and are slow");
  return all;
}

std::vector<Finding> all_findings(const Settings& settings) {
  const Gpus here = gpus();
  std::vector<Finding> all = {compiler(settings), nvrtc(settings, !here.devices.empty()),
                              driver(here)};
  const auto add = [&](const std::vector<Finding>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(devices(here));
  add({disassembler(), cache(settings)});
  if (!settings.cache_readonly.empty()) add({readonly_layer(settings)});
  add(records(settings));
  add({templates(settings)});
  add(variables(settings));
  return all;
}

int run(bool as_json) {
  const std::vector<Finding> all = all_findings(Settings::from_environment());
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows;
  bool missing = false;
  for (const Finding& one : all) {
    rows.push_back({state_name(one.state), one.what, one.message});
    list.push_back(
        {{"name", one.what}, {"state", state_name(one.state)}, {"message", one.message}});
    missing = missing || one.state == Finding::State::missing;
  }
  std::cout << (as_json ? json_text({{"findings", list}}) : text_table(rows));
  return missing ? kFailure : kSuccess;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kMaintain, "doctor", "Diagnose the installation");
  command->footer(kFooter);
  const auto as_json = std::make_shared<bool>(false);
  add_json_flag(*command, *as_json);
  command->callback([as_json, &status] { status = run(*as_json); });
}

}  // namespace jitstep::tool
