#include "jitstep/jit/engine.h"

#include <atomic>
#include <chrono>
#include <mutex>

#include "jit/base/environment.h"
#include "jit/base/fork_guard.h"
#include "jit/base/interrupt.h"
#include "jit/base/log.h"
#include "jit/base/parallel.h"
#include "jit/base/scratch.h"
#include "jit/base/single_flight.h"
#include "jit/base/text.h"
#include "jit/cache/disk_cache.h"
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/image.h"
#include "jit/compiler/isa.h"
#include "jit/compiler/nvrtc_compiler.h"
#include "jit/engine/cache_lookup.h"
#include "jit/engine/engine_parts.h"
#include "jit/engine/kernel_dump.h"
#include "jit/engine/module.h"
#include "jit/engine/preprocessed_text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct Engine::State {
  using BuiltPointer = std::shared_ptr<const Built>;
  using KernelPointer = std::shared_ptr<const Kernel>;

  State(Settings given, Toolchain tools)
      : settings(with_absolute_paths(std::move(given))),
        templates(settings.templates),
        preprocessed_sources(templates, settings),
        disk(settings),
        dump(settings),
        host(std::move(tools.host)),
        driver(std::move(tools.driver)) {
    if (!host) host = std::make_shared<HostCompiler>(settings);
    own_nvrtc = std::make_shared<NvrtcCompiler>(
        settings, [this] { return driver ? driver->version() : installed_driver_version(); });
    nvrtc = tools.nvrtc ? std::move(tools.nvrtc) : own_nvrtc;
  }

  Compiler& compiler_for(const Target& target) { return target.is_cuda() ? *nvrtc : *host; }

  CudaDriver& cuda() { return driver ? *driver : cuda_driver(); }

  BuiltPointer build(const PreprocessedPointer& preprocessed, const std::string& name,
                     const Target& target, bool& found);
  static BuiltPointer built_of(const PreprocessedPointer& preprocessed, const Key& key,
                               CacheEntry entry, bool from_cache);
  BuiltPointer found_of(const PreprocessedPointer& preprocessed, const std::string& name,
                        const Key& key, CacheEntry entry);
  BuiltPointer make(const PreprocessedPointer& preprocessed, const std::string& name,
                    const Key& key);
  BuiltPointer make_without_compiler(const PreprocessedPointer& preprocessed,
                                     const std::string& name, const Key& key);
  BuiltPointer compile(const PreprocessedPointer& preprocessed, const std::string& name,
                       const Key& key);
  Binary compiled(const PreprocessedPointer& preprocessed, const std::string& name,
                  const Target& target);
  KernelPointer load(const PreprocessedPointer& preprocessed, const std::string& name,
                     const BuiltPointer& from, int device);
  void check_cpu(const Built& from);
  std::unique_ptr<Module> load_module(const Built& from, int device);

  // Identifies kernels in memory. The suffix distinguishes native code from baselines that were loaded before.
  std::string memory_id(const PreprocessedSource& preprocessed) const {
    return preprocessed.full_text_digest + (skips_baselines ? " native" : "");
  }

  // Locks, because other threads read the statistics.
  template <class Change>
  void count(const Change& change) {
    std::lock_guard lock(mutex);
    change(statistics);
  }

  Settings settings;
  TemplateStore templates;
  PreprocessedSources preprocessed_sources;
  DiskCache disk;
  KernelDump dump;
  std::shared_ptr<Compiler> host, nvrtc;
  std::shared_ptr<NvrtcCompiler> own_nvrtc;
  std::shared_ptr<CudaDriver> driver;
  SingleFlight<Built> built;
  SingleFlight<Kernel> kernels;
  std::atomic<bool> skips_baselines = false;

  ForkSafeMutex mutex;  // guards the members below
  Statistics statistics;
};

Engine::State::BuiltPointer Engine::State::build(const PreprocessedPointer& preprocessed,
                                                 const std::string& name, const Target& target,
                                                 bool& found) {
  Compiler& compiler = compiler_for(target);
  const bool has_compiler = compiler.available(target);
  const Key key{preprocessed->token_digest, target, has_compiler ? compiler.identity(target) : ""};
  const auto make_it = [&] {
    const auto result = has_compiler ? make(preprocessed, name, key)
                                     : make_without_compiler(preprocessed, name, key);
    dump.write(*result, preprocessed->token_digest);
    return result;
  };
  return built.get(key.digest() + memory_id(*preprocessed), make_it, found);
}

Engine::State::BuiltPointer Engine::State::built_of(const PreprocessedPointer& preprocessed,
                                                    const Key& key, CacheEntry entry,
                                                    bool from_cache) {
  return std::make_shared<Built>(Built{entry.name,
                                       key.digest(),
                                       key.target,
                                       std::move(entry.binary),
                                       from_cache,
                                       entry.compile_ms,
                                       preprocessed->unit,
                                       {preprocessed, &preprocessed->text}});
}

Engine::State::BuiltPointer Engine::State::make(const PreprocessedPointer& preprocessed,
                                                const std::string& name, const Key& key) {
  if (auto entry = disk.find(key)) {
    const std::string problem = image_problem(entry->binary.image, key.target);
    if (problem.empty()) return found_of(preprocessed, name, key, std::move(*entry));
    count([](Statistics& s) { ++s.from_disk; });
    note(settings.log, LogLevel::info,
         str_cat("the cached binary of ", name, " for ", to_string(key.target),
                 " is damaged: ", problem, ". Compiling it again."));
    disk.discard(key);
    return compile(preprocessed, name, key);
  }
  if (key.target.kind == Target::Kind::cpu && settings.cpu.empty() && !skips_baselines)
    if (auto found = find_readonly_baseline(disk, *host, key))
      return found_of(preprocessed, name, found->key, std::move(found->entry));
  if (settings.log >= LogLevel::info) {
    note(settings.log, LogLevel::info,
         str_cat(name, " for ", to_string(key.target), " is not in the cache: ",
                 disk.explain({key, name, 0, preprocessed->sources(), preprocessed->unit})));
  }
  return compile(preprocessed, name, key);
}

Engine::State::BuiltPointer Engine::State::found_of(const PreprocessedPointer& preprocessed,
                                                    const std::string& name, const Key& key,
                                                    CacheEntry entry) {
  count([](Statistics& s) { ++s.from_disk; });
  note(settings.log, LogLevel::info,
       str_cat("loaded ", name, " for ", to_string(key.target), " from the cache, ",
               key.digest().substr(0, 12)));
  return built_of(preprocessed, key, {name, std::move(entry.binary), entry.compile_ms}, true);
}

// A filled cache supports machines without a compiler.
Engine::State::BuiltPointer Engine::State::make_without_compiler(
    const PreprocessedPointer& preprocessed, const std::string& name, const Key& key) {
  Compiler& compiler = compiler_for(key.target);
  if (auto found = find_without_compiler(disk, compiler, key))
    return found_of(preprocessed, name, found->key, std::move(found->entry));
  throw_cache_miss(disk, compiler, {key, name, 0, preprocessed->sources(), preprocessed->unit},
                   settings.log);
}

Binary Engine::State::compiled(const PreprocessedPointer& preprocessed, const std::string& name,
                               const Target& target) {
  try {
    Binary binary = compiler_for(target).compile(preprocessed->text, name, target);
    try_to_load(binary, name, target, scratch_folders(settings));  // before others may find it
    return binary;
  } catch (const CompileError& error) {
    count([](Statistics& s) { ++s.failed; });
    CompileError shown = in_users_paths(error, *preprocessed, templates);
    dump.write(Built{name,
                     "",
                     target,
                     {{}, shown.log(), {}},
                     false,
                     0,
                     preprocessed->unit,
                     {preprocessed, &preprocessed->text}},
               preprocessed->token_digest);
    throw shown;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    count([](Statistics& s) { ++s.failed; });
    throw;
  }
}

Engine::State::BuiltPointer Engine::State::compile(const PreprocessedPointer& preprocessed,
                                                   const std::string& name, const Key& key) {
  const auto start = std::chrono::steady_clock::now();
  Binary binary = compiled(preprocessed, name, key.target);
  const double seconds = seconds_since(start);
  count([&](Statistics& s) {
    ++s.compiled;
    s.compile_seconds += seconds;
  });
  note(settings.log, LogLevel::info,
       str_cat("compiled ", name, " for ", to_string(key.target), " in ", seconds * 1e3, " ms"));
  CacheEntry entry{name, std::move(binary), seconds * 1e3, preprocessed->sources(),
                   preprocessed->unit};
  disk.publish(key, entry);
  return built_of(preprocessed, key, std::move(entry), false);
}

// Without a compiler, the lookup has checked that cached code runs here. Compiled code may be for a JITSTEP_CPU that
// this machine does not support.
void Engine::State::check_cpu(const Built& from) {
  if (from.target.kind != Target::Kind::cpu || baseline_level(settings.cpu) == 0) return;
  if (!host->available(from.target)) return;
  const Fitness fitness = host->fitness(host->identity(from.target), from.target);
  if (fitness.rank == 0)
    throw Error(str_cat("cannot run ", from.name,
                        ", which is compiled for JITSTEP_CPU=", settings.cpu, ": ", fitness.problem,
                        ". Set JITSTEP_CPU to a lower level or to native."));
}

std::unique_ptr<Module> Engine::State::load_module(const Built& from, int device) {
  check_image(from.binary.image, from.name, from.target);
  check_cpu(from);
  if (!from.target.is_cuda()) {
    return load_host_module(from.binary.image, from.name, scratch_folders(settings));
  }
  const Target there = Target::cuda(cuda().device(device).sm);
  if (there != from.target) {
    throw Error(str_cat("cannot load ", from.name, ": it is for ", to_string(from.target),
                        ", and GPU ", device, " is ", to_string(there),
                        ". Compile it for that target."));
  }
  return load_cuda_module(from.binary.image, from.name, cuda(), device);
}

// A cached binary that is undamaged may still not load. Then compile it again. A binary that was just compiled and does
// not load is removed from the cache.
Engine::State::KernelPointer Engine::State::load(const PreprocessedPointer& preprocessed,
                                                 const std::string& name, const BuiltPointer& from,
                                                 int device) {
  const Target target = from->target;
  Compiler& compiler = compiler_for(target);
  try {
    return std::make_shared<Kernel>(from, load_module(*from, device));
  } catch (const ImageError&) {
    if (!compiler.available(target)) throw;
    disk.discard({preprocessed->token_digest, target, compiler.identity(target)});
    if (!from->from_cache) throw;
  }
  const Key key{preprocessed->token_digest, target, compiler.identity(target)};
  auto fresh = compile(preprocessed, name, key);
  built.replace(key.digest() + memory_id(*preprocessed), fresh);
  return std::make_shared<Kernel>(fresh, load_module(*fresh, device));
}

Engine::Engine(Settings settings, Toolchain toolchain)
    : state_(std::make_unique<State>(std::move(settings), std::move(toolchain))) {}
Engine::~Engine() = default;

const Settings& Engine::settings() const { return state_->settings; }

TemplateStore& Engine::templates() { return state_->templates; }

std::shared_ptr<const Kernel> Engine::kernel(const std::string& translation_unit,
                                             const std::string& name, const Target& target,
                                             int device) {
  const auto preprocessed = state_->preprocessed_sources.get(translation_unit, name);
  const std::string id = str_cat(state_->memory_id(*preprocessed), " ", to_string(target), " ",
                                 target.is_cuda() ? device : 0);
  bool found = false;
  auto kernel = state_->kernels.get(
      id,
      [&] {
        bool was_built = false;
        auto built = state_->build(preprocessed, name, target, was_built);
        if (was_built) state_->count([](Statistics& s) { ++s.from_memory; });
        return state_->load(preprocessed, name, built, device);
      },
      found);
  if (found) state_->count([](Statistics& s) { ++s.from_memory; });
  return kernel;
}

std::shared_ptr<const Built> Engine::build(const std::string& translation_unit,
                                           const std::string& name, const Target& target) {
  const auto preprocessed = state_->preprocessed_sources.get(translation_unit, name);
  bool found = false;
  auto built = state_->build(preprocessed, name, target, found);
  if (found) state_->count([](Statistics& s) { ++s.from_memory; });
  return built;
}

void Engine::build_all(const std::vector<NamedText>& units, const Target& target) {
  in_parallel(units.size(), [&](std::size_t i) { build(units[i].text, units[i].name, target); });
}

std::string Engine::preprocessed_text(const std::string& translation_unit,
                                      const std::string& name) const {
  return state_->preprocessed_sources.get(translation_unit, name)->text;
}

void Engine::skip_baselines() { state_->skips_baselines = true; }

void Engine::add_nvrtc_folder(const std::string& folder) { state_->own_nvrtc->add_folder(folder); }

Target Engine::cuda_target(int device) { return Target::cuda(state_->cuda().device(device).sm); }

CudaDriver& driver_of(Engine& engine) { return engine.state_->cuda(); }

Compiler& compiler_of(Engine& engine, const Target& target) {
  return engine.state_->compiler_for(target);
}

Statistics Engine::statistics() const {
  std::lock_guard lock(state_->mutex);
  return state_->statistics;
}

}  // namespace jitstep::jit
