// Settings that change a key and settings that must not: one setting at a time, and in two processes.
#include <sys/personality.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>
#include <locale>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "jit/base/process.h"
#include "jit/cache/cache_fixtures.h"
#include "jit/codegen/unit.h"
#include "jit/compiler/host_compiler.h"
#include "jitstep/jit/error.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using jitstep::testing::in_child;
using testing::key_of;
using testing::settings_with_cache;
using testing::TemporaryFolder;

KernelSpec adamw_int8() {
  return {.rule = "adamw", .state = {{CodecChoice{"int8"}, CodecChoice{"int8"}, {}}}};
}

// ---- one setting at a time ----------------------------------------------------------------------

// The host's compiler with a changed identity.
class RenamedCompiler : public testing::IdentityOnly<HostCompiler> {
 public:
  RenamedCompiler(const Settings& settings, std::function<void(std::string&)> change)
      : IdentityOnly(settings), change_(std::move(change)) {}
  const std::string& identity(const Target& target) override {
    identity_ = HostCompiler::identity(target);
    change_(identity_);
    return identity_;
  }

 private:
  std::function<void(std::string&)> change_;
  std::string identity_;
};

// Everything that determines a kernel in an engine. The emulated target accepts every GPU configuration.
struct KeyInputs {
  KernelSpec spec = adamw_int8();
  KernelConfig config = default_kernel_config(resolve(adamw_int8()), Target::emulated());
  Target target = Target::emulated();
  std::string unit_name = "unit", more_text, emptied_template;
  std::function<void(std::string&)> rename = [](std::string&) {};
  Settings settings = settings_with_cache("");  // must not cache what IdentityOnly compiles

  std::string key() const {
    Engine engine(settings, {.host = std::make_shared<RenamedCompiler>(settings, rename)});
    if (!emptied_template.empty()) engine.templates().add(emptied_template, "");
    const Unit made = unit(resolve(spec), config, Target::emulated());
    return engine.build(made.text + more_text, unit_name, target)->key;
  }
};

struct Knob {
  const char* name;
  std::function<void(KeyInputs&)> apply;
};

// The compilers' identities have one line each for version, machine, ISA and options.
std::function<void(std::string&)> with(const std::string& before, const std::string& more) {
  return [=](std::string& identity) {
    const std::size_t at = identity.find(before);
    if (at == std::string::npos) throw Error(str_cat("no ", before, " in ", identity));
    identity.insert(at + before.size(), more);
  };
}

const std::vector<Knob> kKnobs = {
    {"rule", [](KeyInputs& a) { a.spec.rule = "adam"; }},
    {"flag of the rule",
     [](KeyInputs& a) {
       a.spec.flags["amsgrad"] = true, a.spec.state.slots[2] = CodecChoice{"int8"};
     }},
    {"flag common to all", [](KeyInputs& a) { a.spec.gradient_flags["maximize"] = true; }},
    {"codec of m", [](KeyInputs& a) { a.spec.state.slots[0] = CodecChoice{"fp32"}; }},
    {"codec of v", [](KeyInputs& a) { a.spec.state.slots[1] = CodecChoice{"fp32"}; }},
    {"option of m's codec", [](KeyInputs& a) { a.spec.state.slots[0]->options["block"] = 128; }},
    {"option of v's codec", [](KeyInputs& a) { a.spec.state.slots[1]->options["block"] = 128; }},
    {"weights",
     [](KeyInputs& a) {
       a.spec.state.weights = "stochastic", a.spec.state.dtype = Dtype::bfloat16;
     }},
    {"parameter", [](KeyInputs& a) { a.spec.state.dtype = Dtype::bfloat16; }},
    {"gradient", [](KeyInputs& a) { a.spec.gradient = Dtype::bfloat16; }},
    {"strides", [](KeyInputs& a) { a.spec.strided = true; }},
    {"threads", [](KeyInputs& a) { a.config.threads /= 2; }},
    {"tile_lanes", [](KeyInputs& a) { a.config.tile_lanes /= 2; }},
    {"vector_elems", [](KeyInputs& a) { a.config.vector_elems /= 2; }},
    {"leaves_per_item", [](KeyInputs& a) { a.config.leaves_per_item *= 2; }},
    {"target", [](KeyInputs& a) { a.target = Target::cpu(); }},
    {"a token of text", [](KeyInputs& a) { a.more_text = ";"; }},
    {"a template", [](KeyInputs& a) { a.emptied_template = "rules/adamw.cuh"; }},
    {"compiler version", [](KeyInputs& a) { a.rename = with(" version ", "99."); }},
    {"compiler's machine", [](KeyInputs& a) { a.rename = with("Target: ", "other-"); }},
    {"ISA", [](KeyInputs& a) { a.rename = with("isa:", " -mavx1024"); }},
    {"compiler options", [](KeyInputs& a) { a.rename = with("options:", " -ffast-math"); }},
    {"baseline of processors",
     [](KeyInputs& a) { a.target = Target::cpu(), a.settings.cpu = "x86-64"; }},
    {"check", [](KeyInputs& a) { a.settings.check = true; }},
};

const std::vector<Knob> kNoKnobs = {
    {"nothing", [](KeyInputs&) {}},
    {"the unit's name", [](KeyInputs& a) { a.unit_name = "other"; }},
    {"a comment", [](KeyInputs& a) { a.more_text = "\n  // A comment.\n"; }},
    {"default values, spelled out", [](KeyInputs& a) { a.spec = resolve(a.spec).spec; }},
    {"a codec of a slot that is not stored",
     [](KeyInputs& a) { a.spec.state.slots[2] = CodecChoice{"int4"}; }},
    {"a template that is not included",
     [](KeyInputs& a) { a.emptied_template = "rules/lamb.cuh"; }},
    {"cache_dir", [](KeyInputs& a) { a.settings.cache_dir = "/proc/none"; }},
    {"cache_readonly", [](KeyInputs& a) { a.settings.cache_readonly = "/proc/none"; }},
    {"packaged_kernels", [](KeyInputs& a) { a.settings.packaged_kernels = "/proc/none"; }},
    {"packaged_cxx, not used", [](KeyInputs& a) { a.settings.packaged_cxx = "/nowhere/zig"; }},
    {"templates", [](KeyInputs& a) { a.settings.templates = JITSTEP_SOURCE_DIR "/templates"; }},
    {"cxx, the same compiler by its path",
     [](KeyInputs& a) {
       std::string& cxx = a.settings.cxx;
       cxx = find_program(cxx.empty() ? "c++" : cxx, a.settings.path);
     }},
    {"compile_seconds", [](KeyInputs& a) { a.settings.compile_seconds = 1000; }},
    {"compiler_variables",
     [](KeyInputs& a) {
       a.settings.compiler_variables = {{"CCACHE_DIR", "/dev/shm"}};
     }},
    {"nvrtc", [](KeyInputs& a) { a.settings.nvrtc = "/nowhere"; }},
    {"nvrtc_search", [](KeyInputs& a) { a.settings.nvrtc_search = {"/nowhere"}; }},
    {"python_environment", [](KeyInputs& a) { a.settings.python_environment = "/nowhere"; }},
    {"log", [](KeyInputs& a) { a.settings.log = LogLevel::off; }},
    {"path", [](KeyInputs& a) { a.settings.path += ":/nowhere"; }},
    {"cache_bytes", [](KeyInputs& a) { a.settings.cache_bytes = 1; }},
    {"tmpdir", [](KeyInputs& a) { a.settings.tmpdir = "/dev/shm"; }},
    {"tune", [](KeyInputs& a) { a.settings.tune = true; }},
    {"ranks", [](KeyInputs& a) { a.settings.ranks = 8; }},
    {"override_folder", [](KeyInputs& a) { a.settings.override_folder = "/dev/null/none"; }},
    {"dump_folder", [](KeyInputs& a) { a.settings.dump_folder = "/dev/null/none"; }},
};

// A field added to one of these structures breaks this function. Add a row to the tables above.
[[maybe_unused]] void each_field_has_a_row(const KeyInputs& a, const Key& key) {
  [[maybe_unused]] const auto& [rule, flags, common, state, g, strided] = a.spec;
  [[maybe_unused]] const auto& [slots, weights, p] = state;
  [[maybe_unused]] const auto& [name, options] = *slots[0];
  [[maybe_unused]] const auto& [threads, lanes, vector, chunk, width, unroll, grain, workers] =
      a.config;
  [[maybe_unused]] const auto& [digest, target, compiler] = key;
  [[maybe_unused]] const auto& [dir, readonly, packaged, templates, override, cxx, packaged_cxx,
                                cpu, seconds, variables, nvrtc, search, python, log, path, tmpdir,
                                check, tune, ranks, dump, bytes] = a.settings;
}

TEST(CacheKey, EveryRelevantSettingChangesItAndNoOtherDoes) {
  testing::WarningCollector no_folder;
  const std::string base = KeyInputs().key();
  std::map<std::string, std::string> knob_of = {{base, "no knob"}};
  for (const Knob& knob : kKnobs) {
    KeyInputs inputs;
    knob.apply(inputs);
    const auto [other, is_new] = knob_of.emplace(inputs.key(), knob.name);
    EXPECT_TRUE(is_new) << knob.name << " has the key of " << other->second;
  }
  for (const Knob& knob : kNoKnobs) {
    KeyInputs inputs;
    knob.apply(inputs);
    EXPECT_EQ(inputs.key(), base) << knob.name;
  }
}

// The emulated target ignores these fields.
TEST(CacheKey, CompileTimeConfigFieldsChangeTheSourceAndSchedulingFieldsDoNot) {
  const Plan plan = resolve(adamw_int8());
  const KernelConfig default_config = default_kernel_config(plan, Target::cpu());
  const auto text_of = [&](int KernelConfig::*field, int value) {
    KernelConfig config = default_config;
    config.*field = value;
    return unit(plan, config, Target::cpu()).text;
  };
  const std::string base = text_of(&KernelConfig::leaves_per_item, default_config.leaves_per_item);
  EXPECT_EQ(text_of(&KernelConfig::simd_bits, 512), base);
  EXPECT_NE(text_of(&KernelConfig::simd_bits, 256), base);
  EXPECT_NE(text_of(&KernelConfig::simd_bits, 0), base);
  EXPECT_NE(text_of(&KernelConfig::unroll, 1), base);
  EXPECT_EQ(text_of(&KernelConfig::min_items, 4), base);
  EXPECT_EQ(text_of(&KernelConfig::max_threads, 1), base);
}

TEST(CacheKey, TheTargetChangesItEvenIfTheIdentityIsTheSame) {
  testing::WarningCollector no_folder;
  std::set<std::string> keys;
  for (const Target& target : {Target::cpu(), Target::emulated()}) {
    KeyInputs inputs;
    inputs.target = target;
    inputs.rename = [](std::string& identity) { identity = "one for all"; };
    keys.insert(inputs.key());
  }
  EXPECT_EQ(keys.size(), 2u);
}

TEST(CacheKey, ContainsTheSchemaAsText) {
  const Key key = key_of("a");
  auto fields = nlohmann::json::parse(key.canonical());
  EXPECT_EQ(sha256_hex(fields.dump()), key.digest());
  EXPECT_EQ(fields.at("schema"), kCacheSchema);
  fields["schema"] = kCacheSchema + 1;
  EXPECT_NE(sha256_hex(fields.dump()), key.digest());
}

// ---- two processes ------------------------------------------------------------------------------

std::string keys_of_a_process(
    const Variables& environment, const std::function<void()>& before = [] {}) {
  const bool gpu = ::getenv("JITSTEP_NVRTC") != nullptr;
  Variables all = environment;
  all.emplace_back("JITSTEP_TEMPLATES", "");
  return in_child([&] {
    before();
    return run_program({JITSTEP_CACHE_CHILD, gpu ? "keys_with_gpu" : "keys"}, "",
                       own_variables(all))
        .output;
  });
}

TEST(CacheKey, TwoProcessesComputeTheSameWhateverTheirEnvironment) {
  TemporaryFolder folder;
  const std::string here = keys_of_a_process({});
  EXPECT_NE(here.find("adamw_int8"), std::string::npos) << here;
  EXPECT_EQ(here.find("rror"), std::string::npos) << here;
  const std::vector<Variables> surroundings = {
      {{"JITSTEP_CACHE_DIR", folder / "cache"}},
      {{"JITSTEP_CACHE_DIR", ""}, {"XDG_CACHE_HOME", folder.path()}},
      {{"HOME", folder.path()}, {"USER", "somebody"}, {"LOGNAME", "somebody"}},
      {{"LC_ALL", "de_DE.UTF-8"},
       {"LANG", "de_DE.UTF-8"},
       {"LANGUAGE", "de"},
       {"TZ", "Asia/Tokyo"}},
      {{"TMPDIR", folder.path()}, {"CPATH", folder.path()}, {"OMP_NUM_THREADS", "7"}},
      {{"JITSTEP_CACHE_READONLY", folder.path()}, {"JITSTEP_LOG", "off"}}};
  for (const Variables& environment : surroundings) {
    EXPECT_EQ(keys_of_a_process(environment), here) << environment[0].first;
  }
}

TEST(CacheKey, TwoProcessesComputeTheSameInAnyFolderAtAnyAddressWithAnyUmask) {
  TemporaryFolder folder;
  const std::string here = keys_of_a_process({});
  EXPECT_NE(here.find("adamw_int8"), std::string::npos) << here;
  EXPECT_EQ(keys_of_a_process({}, [&] { testing::fs::current_path(folder.path()); }), here);
  EXPECT_EQ(keys_of_a_process({}, [] { ::umask(0177); }), here);
  // Addresses usually differ between processes. Here they are the same in all.
  EXPECT_EQ(keys_of_a_process({}, [] { ::personality(ADDR_NO_RANDOMIZE); }), here);
}

// A locale such as German programs set: 1.234,5.
struct Grouping : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(CacheKey, TheProgramsLocaleChangesNothing) {
  testing::WarningCollector no_folder;
  KeyInputs large;
  large.spec.state.slots[0]->options["block"] = 1024;  // a number of four digits
  const std::string before = large.key();
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  const std::string number = str_cat(1234567), after = large.key();
  std::locale::global(old);
  EXPECT_EQ(number, "1234567");
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace jitstep::jit
