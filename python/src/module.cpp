// jitstep._core: jitstep::jit for Python. It reads torch's tensors, but links no torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "backends.h"
#include "errors.h"
#include "exchange.h"
#include "gradient_sums.h"
#include "group.h"
#include "jit/base/private_files.h"
#include "jit/codegen/spec_text.h"
#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/step.h"
#include "jitstep/version.h"
#include "overlap.h"
#include "plan.h"
#include "stepper.h"
#include "values.h"

namespace jitstep::python {
namespace {

using namespace nb::literals;
using Kind = jit::Manifest::Kind;

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<T>(self)->traverse(visit, arg) : 0;
}

int clear_stepper(PyObject* self) {
  nb::inst_ptr<Stepper>(self)->release();
  return 0;
}

PyType_Slot group_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse<Group>)},
                             {0, nullptr}};
PyType_Slot stepper_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse<Stepper>)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_stepper)},
                               {0, nullptr}};

void add_catalog(nb::module_& m) {
  const auto names = [](Kind kind) {
    return [kind] { return jit::default_catalog().names(kind); };
  };
  m.def("rules", names(Kind::rule), "The names of all rules.");
  m.def("codecs", names(Kind::codec), "The names of all state formats.");
  m.def("weight_formats", names(Kind::weights), "The names of all weight formats.");
  m.def(
      "describe",
      [](const std::string& rule) { return describe(jit::default_catalog().rule(rule)); }, "rule"_a,
      "A rule's declarations.");
  m.def(
      "rule_in",
      [](const std::string& path) {
        const jit::Manifest rule = jit::read_manifest(jit::read_code_file(path), path, Kind::rule);
        std::vector<std::tuple<std::string, int, std::string>> options;
        std::vector<std::pair<std::string, int>> state;
        for (const auto* declared : {&rule.hyper, &rule.flags})
          for (const jit::Option& option : *declared)
            options.emplace_back(option.name, option.line, option.at_construction);
        for (const jit::Slot& slot : rule.slots) state.emplace_back(slot.torch_name, slot.line);
        for (const jit::AuxField& field : rule.aux_state)
          state.emplace_back(field.torch_name, field.line);
        return std::tuple(rule.name, rule.class_name, options, state);
      },
      "path"_a,
      "The rule and the class that a file declares (empty if it names none), its options with "
      "line and the option that sets them at construction, and torch's names of its state with "
      "line.");
  m.def(
      "load_rule",
      [](const std::string& path) { return jit::default_catalog().load_rule(path).name; },
      "path"_a);
  m.def(
      "load_codec",
      [](const std::string& path) { return jit::default_catalog().load_codec(path).name; },
      "path"_a);
  m.def("parse_spec", &parse_spec, "text"_a);
  m.def(
      "formats_to_json", [](const nb::dict& group) { return jit::to_json(to_formats(group)); }, "group"_a,
      "The formats of a parameter group, as archives of C++ have them.");
  m.def(
      "formats_from_json",
      [](const std::string& text, const std::string& rule) {
        return from_formats(jit::formats_from_json(text), jit::default_catalog().rule(rule));
      },
      "text"_a, "rule"_a, "The formats in an archive of C++, as the keys of a parameter group.");
  m.def("check_disjoint", nb::overload_cast<const nb::list&, const std::vector<int>&>(&check_disjoint), "parameters"_a,
        "numbers"_a, "Raises ValueError for tensors that share memory.");
  m.def(
      "codec_aux",
      [](const std::string& codec) {
        std::vector<std::string> fields;
        for (const jit::AuxField& field : jit::default_catalog().codec(codec).aux_state)
          fields.push_back(field.name);
        return fields;
      },
      "codec"_a, "The names of a codec's auxiliary state.");
}

void add_process(nb::module_& m) {
  m.attr("__version__") = JITSTEP_VERSION;
  m.def("use_exchange", &use_exchange, "capsule"_a.none());
  m.def("use_package", &use_package, "kernels"_a, "compiler"_a, "nvrtc"_a,
        "Names the package's folder of compiled kernels, a compiler to use if PATH has none, and a "
        "folder to search "
        "for NVRTC.");
  m.def(
      "check_not_capturing", [](nb::handle tensor) { check_not_capturing(read(tensor).device); },
      "tensor"_a,
      "Raises ValueError if the stream of the tensor's device is captured into a CUDA graph.");
  m.def("set_threads", &set_threads, "count"_a);
  m.def("has_openmp", &has_openmp);
  m.def("launch_count", &jit::launch_count, "Kernel launches of this process so far.");
  m.def(
      "compile_count", [] { return jit::default_engine().statistics().compiled; },
      "Kernels that this process has compiled so far.");
}

void add_group(nb::module_& m) {
  nb::class_<Group>(m, "Group", nb::type_slots(group_slots))
      .def(nb::init<const std::string&>(), "rule"_a)
      .def("refresh", &Group::refresh, "group"_a, "check"_a = false)
      .def("initial_shared_state",
           [](const Group& group) { return jit::initial_shared_state(group.values()); })
      .def("constructed", &Group::constructed)
      .def_rw("first", &Group::first)
      .def_prop_ro("rule", &Group::rule);
}

void add_plan(nb::module_& m) {
  nb::class_<SlotInfo>(m, "SlotInfo")
      .def_ro("name", &SlotInfo::name)
      .def_ro("format", &SlotInfo::format)
      .def_ro("plain", &SlotInfo::plain)
      .def_ro("codes", &SlotInfo::codes)
      .def_ro("scales", &SlotInfo::scales)
      .def_ro("block", &SlotInfo::block)
      .def_ro("initial", &SlotInfo::initial);
  nb::class_<AuxInfo>(m, "AuxInfo")
      .def_ro("name", &AuxInfo::name)
      .def_ro("sizes", &AuxInfo::sizes)
      .def_ro("is_double", &AuxInfo::is_double)
      .def_ro("initial", &AuxInfo::initial)
      .def_ro("slot", &AuxInfo::slot)
      .def_ro("is_matrix", &AuxInfo::is_matrix);
  nb::class_<Buffers>(m, "Buffers")
      .def(
          "__init__",
          [](Buffers* self, nb::object p, std::vector<std::pair<nb::object, nb::object>> slots,
             std::vector<nb::object> aux, nb::object residual, bool residual_is_set) {
            new (self) Buffers{std::move(p), std::move(slots), std::move(aux), std::move(residual),
                               residual_is_set};
          },
          "p"_a.none(), "slots"_a, "aux"_a, "residual"_a.none(), "residual_is_set"_a = false);
  nb::class_<ParamPlan>(m, "ParamPlan")
      .def(nb::init<Group&, nb::handle, int, std::vector<std::int64_t>>(), "group"_a, "p"_a,
           "number"_a, "whole"_a = std::vector<std::int64_t>())
      .def("with_codec", &ParamPlan::with_codec, "slot"_a, "format"_a)
      .def("with_weights", &ParamPlan::with_weights, "format"_a)
      .def("with_strides", &ParamPlan::with_strides, "strides"_a)
      .def("with_offset", &ParamPlan::with_offset, "offset"_a)
      .def("slots", &ParamPlan::slots)
      .def("aux", &ParamPlan::aux)
      .def("same_codes", &ParamPlan::same_codes, "slot"_a, "format"_a)
      .def("decode", &ParamPlan::decode, "buffers"_a, "t"_a, "slot"_a, "values"_a)
      .def("encode", &ParamPlan::encode, "buffers"_a, "t"_a, "slot"_a, "values"_a)
      .def("sizes", &ParamPlan::sizes)
      .def("compact_strides", &ParamPlan::compact_strides)
      .def_prop_ro("needs_all_tensors", &ParamPlan::needs_all_tensors)
      .def_prop_ro("is_elementwise", &ParamPlan::is_elementwise)
      .def_prop_ro("name", &ParamPlan::name)
      .def_prop_ro("weights", &ParamPlan::weights)
      .def_prop_ro("residual_bytes", &ParamPlan::residual_bytes)
      .def_prop_ro("residual", &ParamPlan::residual)
      .def_prop_ro("bytes", &ParamPlan::bytes);
}

void add_stepper(nb::module_& m) {
  nb::class_<KernelInfo>(m, "KernelInfo")
      .def_ro("name", &KernelInfo::name)
      .def_ro("target", &KernelInfo::target)
      .def_ro("key", &KernelInfo::key)
      .def_ro("config", &KernelInfo::config)
      .def_ro("reason", &KernelInfo::reason)
      .def_ro("from_cache", &KernelInfo::from_cache)
      .def_ro("compile_ms", &KernelInfo::compile_ms)
      .def_ro("parameters", &KernelInfo::parameters);
  nb::enum_<Stepper::Result>(m, "Result")
      .value("done", Stepper::Result::done)
      .value("rebuild", Stepper::Result::rebuild)
      .value("skipped", Stepper::Result::skipped);
  nb::class_<Stepper>(m, "Stepper", nb::type_slots(stepper_slots))
      .def(nb::init<>())
      .def("begin", &Stepper::begin, "groups"_a, "owners"_a)
      .def("add", &Stepper::add, "p"_a, "group"_a, "plan"_a, "buffers"_a, "step"_a.none(),
           "counter"_a.none(), "gradient"_a, "state"_a)
      .def("add_inactive", &Stepper::add_inactive, "p"_a)
      .def("finish", &Stepper::finish, "state"_a, "scaled"_a)
      .def("step", &Stepper::step, "param_groups"_a, "state"_a, "grad_scale"_a.none(),
           "found_inf"_a.none(), "transform"_a.none(), "given"_a)
      .def("switch_mode", &Stepper::switch_mode, "train"_a)
      .def("stepped", &Stepper::stepped)
      .def("shared_state", &Stepper::shared_state)
      .def("restart_shared_state", &Stepper::restart_shared_state)
      .def("set_shared_state", &Stepper::set_shared_state, "values"_a)
      .def("kernels", &Stepper::kernels)
      .def("tune", &Stepper::tune, "on"_a, "agree"_a.none())
      .def("tuning_progress", &Stepper::tuning_progress)
      .def("finish_trial", &Stepper::finish_trial, nb::call_guard<nb::gil_scoped_release>())
      .def("is_ready", &Stepper::is_ready)
      .def("counts_on_device", &Stepper::counts_on_device)
      .def("drop", &Stepper::drop);
}

void add_gradient_sums(nb::module_& m) {
  nb::class_<GradientSums>(m, "GradientSums")
      .def(nb::init<bool, std::uint64_t>(), "stochastic"_a, "seed"_a)
      .def("add", &GradientSums::add, "additions"_a, "t"_a);
}

}  // namespace

NB_MODULE(_core, m) {
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // a program may end with optimizers in use
#endif
  add_errors(m);
  add_catalog(m);
  add_process(m);
  add_group(m);
  add_plan(m);
  add_stepper(m);
  add_gradient_sums(m);
}

}  // namespace jitstep::python
