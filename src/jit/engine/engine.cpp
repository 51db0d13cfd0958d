#include "jitstep/jit/engine.h"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "jit/base/digest.h"
#include "jit/base/fork_guard.h"
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
#include "jit/engine/kernel_dump.h"
#include "jit/engine/module.h"
#include "jit/source/flatten.h"
#include "jit/source/source_digests.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/log.h"

namespace jitstep::jit {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The same error with the user's own paths in place of the names of templates.
CompileError in_users_paths(const CompileError& error, const std::string& flat,
                            const TemplateStore& templates) {
  ShownNames shown;
  for (const std::string& name : file_names(flat)) {
    if (std::string path = templates.shown_name(name); path != name) shown[name] = std::move(path);
  }
  return CompileError(with_shown_names(error.what(), shown), with_shown_names(error.log(), shown),
                      with_shown_names(error.source(), shown));
}

}  // namespace

struct Engine::State {
  using BuiltPointer = std::shared_ptr<const Built>;
  using KernelPointer = std::shared_ptr<const Kernel>;

  // A unit's flattened text and its digest, kept while the templates stay as they are.
  struct Flat {
    std::string text;
    std::string digest;       // of the code: what the disk cache knows it by
    std::string text_digest;  // of all of it: errors name lines, which comments move
    std::string unit;
    Texts included;
    bool is_overridden = false;  // by an edited text, which came with no templates

    // Many digests: of what is not in the cache alone.
    Sources sources() const {
      return is_overridden ? Sources{{"JITSTEP_OVERRIDE", digest}} : sources_of(unit, included);
    }
  };

  using FlatPointer = std::shared_ptr<const Flat>;

  State(Settings s, const Backends& b)
      : settings(std::move(s)),
        templates(settings.templates),
        disk(settings),
        dump(settings),
        driver(b.driver) {
    host = b.host ? b.host : std::make_shared<HostCompiler>(settings);
    own_nvrtc = std::make_shared<NvrtcCompiler>(
        settings, [this] { return driver ? driver->version() : installed_driver_version(); });
    nvrtc = b.nvrtc ? b.nvrtc : own_nvrtc;
    warn_of_no_folder("JITSTEP_TEMPLATES", settings.templates, "the built-in templates are used");
    warn_of_no_folder("JITSTEP_OVERRIDE", settings.override_folder, "no text is replaced");
  }

  void warn_of_no_folder(const char* name, const std::string& folder, const char* then) const {
    std::error_code failure;
    if (!folder.empty() && !std::filesystem::is_directory(folder, failure))
      warn(settings.log, text(name, " is ", folder, ", which is no folder: ", then));
  }

  Compiler& compiler_for(const Target& target) { return target.is_cuda() ? *nvrtc : *host; }

  CudaDriver& cuda() { return driver ? *driver : cuda_driver(); }

  FlatPointer flat(const std::string& unit_text, const std::string& name);
  BuiltPointer build(const FlatPointer& flat, const std::string& name, const Target& target,
                     bool& found);
  void override_with_edited(Flat& flat, const std::string& name) const;
  static BuiltPointer built_of(const FlatPointer& flat, const Key& key, CacheEntry entry,
                               bool from_cache);
  BuiltPointer found_of(const FlatPointer& flat, const std::string& name, const Key& key,
                        CacheEntry entry);
  BuiltPointer make(const FlatPointer& flat, const std::string& name, const Key& key);
  BuiltPointer make_without_compiler(const FlatPointer& flat, const std::string& name,
                                     const Key& key);
  BuiltPointer compile(const FlatPointer& flat, const std::string& name, const Key& key);
  Binary compiled(const FlatPointer& flat, const std::string& name, const Target& target);
  KernelPointer load(const FlatPointer& flat, const std::string& name, const BuiltPointer& from,
                     int device);
  void check_cpu(const Built& from);
  std::unique_ptr<Module> load_module(const Built& from, int device);

  // Counts under the lock; the statistics are read by other threads.
  template <class Change>
  void count(const Change& change) {
    std::lock_guard lock(mutex);
    change(statistics);
  }

  Settings settings;
  TemplateStore templates;
  DiskCache disk;
  KernelDump dump;
  std::shared_ptr<Compiler> host, nvrtc;
  std::shared_ptr<NvrtcCompiler> own_nvrtc;
  std::shared_ptr<CudaDriver> driver;
  SingleFlight<Built> built;
  SingleFlight<Kernel> kernels;

  ForkSafeMutex mutex;  // of what follows
  Statistics statistics;
  std::uint64_t flats_version = 0;
  std::unordered_map<std::string, FlatPointer> flats;
};

Engine::State::FlatPointer Engine::State::flat(const std::string& unit_text,
                                               const std::string& name) {
  const std::uint64_t version = templates.version();
  const std::string id = name + '\0' + unit_text;
  {
    std::lock_guard lock(mutex);
    if (version != flats_version) flats.clear();
    flats_version = version;
    if (const auto known = flats.find(id); known != flats.end()) return known->second;
  }
  auto made = std::make_shared<Flat>();
  made->text = flatten(unit_text, name, templates, made->included);
  made->digest = code_digest(made->text);
  made->unit = unit_text;
  override_with_edited(*made, name);
  made->text_digest = sha256_hex(made->text);
  std::lock_guard lock(mutex);
  if (version == flats_version) flats[id] = made;
  return made;
}

void Engine::State::override_with_edited(Flat& flat, const std::string& name) const {
  auto edited = overriding_text(settings.override_folder, name, flat.text, flat.digest);
  if (!edited) return;
  warn(settings.log, text("JITSTEP_OVERRIDE: ", name, " is the edited text in ",
                          folder_of_text(name, flat.digest), ", not its own"));
  flat.text = std::move(*edited);
  flat.digest = code_digest(flat.text);
  flat.is_overridden = true;
}

Engine::State::BuiltPointer Engine::State::build(const FlatPointer& flat, const std::string& name,
                                                 const Target& target, bool& found) {
  Compiler& compiler = compiler_for(target);
  const bool has_compiler = compiler.available(target);
  const Key key{flat->digest, target, has_compiler ? compiler.identity(target) : ""};
  const auto make_it = [&] {
    const auto made = has_compiler ? make(flat, name, key) : make_without_compiler(flat, name, key);
    dump.write(*made, flat->digest);
    return made;
  };
  return built.get(key.digest() + flat->text_digest, make_it, found);
}

Engine::State::BuiltPointer Engine::State::built_of(const FlatPointer& flat, const Key& key,
                                                    CacheEntry entry, bool from_cache) {
  return std::make_shared<Built>(Built{entry.name,
                                       key.digest(),
                                       key.target,
                                       std::move(entry.binary),
                                       from_cache,
                                       entry.compile_ms,
                                       flat->unit,
                                       {flat, &flat->text}});
}

Engine::State::BuiltPointer Engine::State::make(const FlatPointer& flat, const std::string& name,
                                                const Key& key) {
  if (auto entry = disk.find(key)) {
    const std::string problem = image_problem(entry->binary.image, key.target);
    if (problem.empty()) return found_of(flat, name, key, std::move(*entry));
    count([](Statistics& s) { ++s.from_disk; });
    note(settings.log, LogLevel::info,
         text(name, " for ", to_string(key.target),
              " from the cache, whose binary is damaged: ", problem));
    disk.discard(key);
    return compile(flat, name, key);
  }
  // A tuner compares what this processor can do.
  if (key.target.kind == Target::Kind::cpu && settings.cpu.empty() && !settings.tune)
    if (auto found = find_shipped_baseline(disk, *host, key))
      return found_of(flat, name, found->key, std::move(found->entry));
  if (settings.log >= LogLevel::info) {
    note(settings.log, LogLevel::info,
         text(name, " for ", to_string(key.target),
              " is not in the cache: ", disk.explain({key, name, 0, flat->sources(), flat->unit})));
  }
  return compile(flat, name, key);
}

Engine::State::BuiltPointer Engine::State::found_of(const FlatPointer& flat,
                                                    const std::string& name, const Key& key,
                                                    CacheEntry entry) {
  count([](Statistics& s) { ++s.from_disk; });
  note(settings.log, LogLevel::info,
       text(name, " for ", to_string(key.target), " from the cache, ", key.digest().substr(0, 12)));
  return built_of(flat, key, {name, std::move(entry.binary), entry.compile_ms}, true);
}

// A filled cache serves machines without a compiler.
Engine::State::BuiltPointer Engine::State::make_without_compiler(const FlatPointer& flat,
                                                                 const std::string& name,
                                                                 const Key& key) {
  Compiler& compiler = compiler_for(key.target);
  if (auto found = find_without_compiler(disk, compiler, key))
    return found_of(flat, name, found->key, std::move(found->entry));
  refuse_miss(disk, compiler, {key, name, 0, flat->sources(), flat->unit}, settings.log);
}

Binary Engine::State::compiled(const FlatPointer& flat, const std::string& name,
                               const Target& target) {
  try {
    Binary binary = compiler_for(target).compile(flat->text, name, target);
    try_to_load(binary, name, target, scratch_folders(settings));  // before others may find it
    return binary;
  } catch (const CompileError& error) {
    count([](Statistics& s) { ++s.failed; });
    throw in_users_paths(error, flat->text, templates);
  } catch (...) {
    count([](Statistics& s) { ++s.failed; });
    throw;
  }
}

Engine::State::BuiltPointer Engine::State::compile(const FlatPointer& flat, const std::string& name,
                                                   const Key& key) {
  const auto start = std::chrono::steady_clock::now();
  Binary binary = compiled(flat, name, key.target);
  const double seconds = seconds_since(start);
  count([&](Statistics& s) {
    ++s.compiled;
    s.compile_seconds += seconds;
  });
  note(settings.log, LogLevel::info,
       text("compiled ", name, " for ", to_string(key.target), " in ", seconds * 1e3, " ms"));
  CacheEntry entry{name, std::move(binary), seconds * 1e3, flat->sources(), flat->unit};
  disk.publish(key, entry);
  return built_of(flat, key, std::move(entry), false);
}

// What was found in place of a compiler is known to run here; what is compiled is for who asked for it.
void Engine::State::check_cpu(const Built& from) {
  if (from.target.kind != Target::Kind::cpu || baseline_level(settings.cpu) == 0) return;
  if (!host->available(from.target)) return;
  const Fitness fitness = host->fitness(host->identity(from.target), from.target);
  if (fitness.rank == 0)
    throw Error(text("cannot run ", from.name, ", which is compiled for JITSTEP_CPU=", settings.cpu,
                     ": ", fitness.problem, ". Set JITSTEP_CPU to a lower level or to native"));
}

std::unique_ptr<Module> Engine::State::load_module(const Built& from, int device) {
  check_image(from.binary.image, from.name, from.target);
  check_cpu(from);
  if (!from.target.is_cuda()) {
    return load_host_module(from.binary.image, from.name, scratch_folders(settings));
  }
  const Target there = Target::cuda(cuda().device(device).sm);
  if (there != from.target) {
    throw Error(text(from.name, " is for ", to_string(from.target), ", but GPU ", device, " is ",
                     to_string(there), "; ask for that target"));
  }
  return load_cuda_module(from.binary.image, from.name, cuda(), device);
}

// A file from the cache that is whole but does not load is damage of another sort: compile anew. What does not load as it
// was compiled here is not left to others.
Engine::State::KernelPointer Engine::State::load(const FlatPointer& flat, const std::string& name,
                                                 const BuiltPointer& from, int device) {
  const Target target = from->target;
  Compiler& compiler = compiler_for(target);
  try {
    return std::make_shared<Kernel>(from, load_module(*from, device));
  } catch (const ImageError&) {
    if (!compiler.available(target)) throw;
    disk.discard({flat->digest, target, compiler.identity(target)});
    if (!from->from_cache) throw;
  }
  const Key key{flat->digest, target, compiler.identity(target)};
  auto fresh = compile(flat, name, key);
  built.replace(key.digest() + flat->text_digest, fresh);
  return std::make_shared<Kernel>(fresh, load_module(*fresh, device));
}

Engine::Engine(Settings settings, Backends backends)
    : state_(std::make_unique<State>(std::move(settings), std::move(backends))) {}
Engine::~Engine() = default;

const Settings& Engine::settings() const { return state_->settings; }

TemplateStore& Engine::templates() { return state_->templates; }

std::shared_ptr<const Kernel> Engine::kernel(const std::string& unit_text, const std::string& name,
                                             const Target& target, int device) {
  const auto flat = state_->flat(unit_text, name);
  const std::string id =
      text(flat->text_digest, " ", to_string(target), " ", target.is_cuda() ? device : 0);
  bool found = false;
  auto kernel = state_->kernels.get(
      id,
      [&] {
        bool was_built = false;
        auto built = state_->build(flat, name, target, was_built);
        if (was_built) state_->count([](Statistics& s) { ++s.from_memory; });
        return state_->load(flat, name, built, device);
      },
      found);
  if (found) state_->count([](Statistics& s) { ++s.from_memory; });
  return kernel;
}

std::shared_ptr<const Built> Engine::build(const std::string& unit_text, const std::string& name,
                                           const Target& target) {
  const auto flat = state_->flat(unit_text, name);
  bool found = false;
  auto built = state_->build(flat, name, target, found);
  if (found) state_->count([](Statistics& s) { ++s.from_memory; });
  return built;
}

void Engine::build_all(const std::vector<NamedText>& units, const Target& target) {
  in_parallel(units.size(), [&](std::size_t i) { build(units[i].text, units[i].name, target); });
}

std::string Engine::flat_text(const std::string& unit_text, const std::string& name) const {
  return state_->flat(unit_text, name)->text;
}

void Engine::add_nvrtc_folder(const std::string& folder) { state_->own_nvrtc->add_folder(folder); }

Target Engine::cuda_target(int device) { return Target::cuda(driver().device(device).sm); }

CudaDriver& Engine::driver() { return state_->cuda(); }

Statistics Engine::statistics() const {
  std::lock_guard lock(state_->mutex);
  return state_->statistics;
}

Engine& default_engine() {
  static Engine& engine = *new Engine(Settings::from_environment());
  return engine;
}

}  // namespace jitstep::jit
