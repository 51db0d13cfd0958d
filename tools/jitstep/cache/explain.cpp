// jitstep cache explain: why the engine uses an entry or not.
#include <jit/base/private_files.h>
#include <jit/cache/explain.h>
#include <jit/engine/cache_lookup.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "../command.h"
#include "../compilers.h"
#include "../in_range.h"
#include "../json_output.h"
#include "../usage.h"
#include "actions.h"

namespace jitstep::tool::cache {
namespace {

using namespace jitstep::jit;
using Entries = std::vector<ListedEntry>;

// This machine's compiler for a target: its identity, or the reason why it cannot compile.
struct CompilerHere {
  std::unique_ptr<Compiler> compiler;
  std::string identity = {}, problem = {};
};

CompilerHere compiler_here(const Target& target, const Settings& settings) {
  CompilerHere here{compiler_for(target, settings)};
  try {
    here.identity = here.compiler->identity(target);
  } catch (const Error& error) {
    here.problem = error.what();
  }
  return here;
}

// Replaces the entry's sources by the files with the same name, as load_rule and load_codec do.
void add_files(const EntryHeader& header, const std::vector<std::string>& files,
               TemplateStore& templates) {
  for (const std::string& file : files) {
    for (const auto& [name, digest] : header.sources) {
      if (std::filesystem::path(name).filename() == std::filesystem::path(file).filename())
        templates.add(name, read_code_file(file));
    }
  }
}

// Why a program would not use an entry now, and which sources could not be compared.
struct Explanation {
  const ListedEntry* entry;
  std::string no_compiler;  // why no compiler was found; empty if one was
  std::vector<std::string> reasons, unknown;
};

// Explains entries by the rules of the engine.
class Explainer {
 public:
  explicit Explainer(const std::vector<std::string>& files) : files_(files) {}

  const Entries& entries() const { return entries_; }

  Explanation explained(const ListedEntry& entry) {
    if (!entry.problem.empty()) return {&entry, "", {entry.problem}, {}};
    const EntryHeader& header = *entry.header;
    const CompilerHere& here = compiler_of(header.key.target);
    TemplateStore templates(settings_.templates);
    add_files(header, files_, templates);
    const EntryHeader current = renewed(header, templates, here.identity);
    return {&entry, here.problem, differences(header, current, why_unusable_of(header.key, here)),
            unknown_sources(header.sources, templates)};
  }

 private:
  // Made once for each target, because NVRTC and the host compiler run for their identity.
  const CompilerHere& compiler_of(const Target& target) {
    const auto known = compilers_.find(target);
    if (known != compilers_.end()) return known->second;
    return compilers_.emplace(target, compiler_here(target, settings_)).first->second;
  }

  // How the engine judges another compiler's binary. Nothing: it uses only those of this compiler.
  WhyUnusable why_unusable_of(const Key& key, const CompilerHere& here) {
    if (replaces_native_code(key, here)) return [](const std::string&) { return std::string(); };
    if (here.problem.empty()) return {};
    return [&here, target = key.target](const std::string& identity) {
      return here.compiler->fitness(identity, target).problem;
    };
  }

  // A baseline of the read-only cache runs if there is no native code in the cache.
  bool replaces_native_code(const Key& key, const CompilerHere& here) {
    const bool possible = here.problem.empty() && settings_.cpu.empty();
    if (!possible || key.target.kind != Target::Kind::cpu) return false;
    const Key native{key.token_digest, key.target, here.identity};
    const auto is_native = [&](const ListedEntry& one) {
      return one.problem.empty() && one.header->key == native;
    };
    if (std::any_of(entries_.begin(), entries_.end(), is_native)) return false;
    const auto found = find_readonly_baseline(disk_, *here.compiler, native);
    return found && found->key == key;
  }

  const std::vector<std::string>& files_;
  const Settings settings_ = settings();
  DiskCache disk_{settings_};
  const Entries entries_ = disk_.list(true);
  std::map<Target, CompilerHere> compilers_;
};

void print(const Explanation& one) {
  print_line(*one.entry);
  if (!one.no_compiler.empty()) std::cout << "  no compiler here: " << one.no_compiler << "\n";
  for (const std::string& reason : one.reasons) std::cout << "  not used: " << reason << "\n";
  if (one.reasons.empty()) std::cout << "  used for the same source\n";
  for (const std::string& name : one.unknown)
    std::cout << "  not compared: " << name
              << ", which does not ship with jitstep. Give the file by --load.\n";
}

nlohmann::json to_json(const Explanation& one) {
  nlohmann::json out = entry_json(*one.entry);
  out.update({{"used", one.reasons.empty()},
              {"not_used_because", one.reasons},
              {"not_compared", one.unknown},
              {"no_compiler", one.no_compiler}});
  return out;
}

int explain(const std::string& prefix, const std::vector<std::string>& files, bool json) {
  nlohmann::json all = nlohmann::json::array();
  Explainer explainer(files);
  for (const ListedEntry& entry : explainer.entries()) {
    if (!matches(entry, prefix)) continue;
    const Explanation one = explainer.explained(entry);
    all.push_back(to_json(one));
    if (!json) print(one);
  }
  if (all.empty()) throw no_entry(prefix);
  if (json) std::cout << json_text({{"entries", all}});
  return kSuccess;
}

}  // namespace

void add_explain(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand(
      "explain", "Explain why the current templates and compiler do or do not use an entry");
  const auto prefix = std::make_shared<std::string>();
  command->add_option("entry", *prefix, "Beginning of a kernel's name or key")
      ->type_name("ENTRY")
      ->check(not_empty_argument())
      ->required();
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("--load", *files, "File of a rule or codec that your program loads")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->check(not_empty());
  const auto json = std::make_shared<bool>(false);
  add_json_flag(*command, *json);
  command->callback([prefix, files, json, &status] { status = explain(*prefix, *files, *json); });
}

}  // namespace jitstep::tool::cache
