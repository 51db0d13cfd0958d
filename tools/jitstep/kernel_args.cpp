#include "kernel_args.h"

#include <jitstep/jit/layout.h>

#include "flag_values.h"
#include "in_range.h"

namespace jitstep::tool {

void add_kernel_args(CLI::App& command, KernelArgs& args) {
  CLI::Option* const spec =
      command
          .add_option("spec", args.spec,
                      "The optimizer as JSON, as in {\"rule\": \"adamw\", \"state\": \"int8\"}")
          ->type_name("SPEC")
          ->check(not_empty());
  add_spec_args(command, *spec, args.optimizer);
  command.add_option("--target", args.target, "cpu, emulated or sm_ with a number")
      ->type_name("TARGET")
      ->check(is_target())
      ->capture_default_str();
  command.add_option("--dims", args.dims, "Number of dimensions of the parameters")
      ->type_name("N")
      ->check(in_range(0, kMaxDims))
      ->capture_default_str();
  command.add_flag("--strided", args.strided, "Parameters or gradients are not dense");
  command.add_flag("--scaled", args.scaled, "A GradScaler scales the gradients");
  command
      .add_option(
          "--config", args.config,
          "Launch configuration: threads=, tile_lanes=, vector_elems=, leaves_per_item=; for the "
          "CPU also simd_bits=, unroll=, min_items=, max_threads=")
      ->type_name("NAME=N,...")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      .add_option("--override", args.override_file,
                  "Compile this edited source instead of the kernel's own")
      ->type_name("FILE")
      ->check(not_empty());
}

RequestedOptimizer optimizer_of(const KernelArgs& args) {
  if (args.spec.empty()) return optimizer_of_args(args.optimizer);
  RequestedOptimizer requested = optimizer_of_spec(args.spec);
  requested.parameter = args.optimizer.parameter;
  requested.gradient = args.optimizer.gradient;
  return requested;
}

}  // namespace jitstep::tool
