#include "jit/engine/cache_lookup.h"

#include <string>

#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

std::string why_missing(Compiler& compiler, const Target& target) {
  try {
    compiler.identity(target);
  } catch (const Error& error) {
    return error.what();
  }
  return "the compiler was installed during this call. Try again.";
}

}  // namespace

std::optional<DiskCache::Found> find_without_compiler(DiskCache& disk, const Compiler& compiler,
                                                      const Key& key) {
  return disk.find_best(
      key, [&](const std::string& of) { return compiler.fitness(of, key.target).rank; });
}

std::optional<DiskCache::Found> find_readonly_baseline(DiskCache& disk, const Compiler& compiler,
                                                       const Key& key) {
  const auto rank = [&](const std::string& of) {
    const Fitness fitness = compiler.fitness(of, key.target);
    // The identity does not show how a wrapper changes the options.
    return fitness.baseline && of.find("\nwrapper: ") == of.npos ? fitness.rank : 0;
  };
  // The packaged layer is left out. Its baselines are for any machine, and native code is faster: in int8 almost twice.
  constexpr DiskCache::Layer kLayers[] = {DiskCache::Layer::readonly};
  auto found = disk.find_best(key, rank, kLayers);
  if (found && !found->whole) found.reset();
  return found;
}

void throw_cache_miss(DiskCache& disk, Compiler& compiler, const EntryHeader& wanted,
                      LogLevel log) {
  const Target& target = wanted.key.target;
  const auto why_unusable = [&](const std::string& of) {
    return compiler.fitness(of, target).problem;
  };
  const std::string miss =
      str_cat("the kernel ", wanted.name, " for ", to_string(target), " is not in ", disk.folders(),
              ": ", disk.explain(wanted, why_unusable));
  note(log, LogLevel::info, miss);
  const std::string message =
      str_cat(miss, ". It cannot be compiled here: ", why_missing(compiler, target));
  if (target.kind == Target::Kind::cpu) throw MissingCompilerError(message);
  throw ToolchainError(message);
}

}  // namespace jitstep::jit
