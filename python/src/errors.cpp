#include "errors.h"

#include <exception>
#include <string>

#include "jit/base/interrupt.h"
#include "jitstep/jit/error.h"
#include "signals.h"

namespace jitstep::python {
namespace {

namespace nb = nanobind;

// Exceptions live as long as the process, as those of Python do.
PyObject *error, *compile_error, *cuda_error, *missing_compiler_error, *option_error;

PyObject* add(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string full_name = std::string("jitstep.") + name;
  PyObject* const type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, base, nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::borrow(type);
  return type;
}

// Messages may have bytes of files and compilers that are not UTF-8.
nb::object text_of(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void raise(PyObject* type, const std::exception& thrown) {
  PyErr_SetObject(type, text_of(thrown.what()).ptr());
}

// The option's name and the number's position are attributes.
void raise_option_error(const jit::OptionError& thrown) {
  const nb::object raised = nb::borrow(option_error)(text_of(thrown.what()));
  raised.attr("option") = nb::str(thrown.option().c_str());
  raised.attr("index") = nb::int_(thrown.index());
  PyErr_SetObject(option_error, raised.ptr());
}

// The compiler's complete output is an attribute.
void raise_compile_error(const jit::CompileError& thrown) {
  const nb::object raised = nb::borrow(compile_error)(text_of(thrown.what()));
  raised.attr("log") = text_of(thrown.log());
  PyErr_SetObject(compile_error, raised.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const jit::Interrupted&) {
    raise_exception_of_handler();
  } catch (const jit::OptionError& one) {
    raise_option_error(one);
  } catch (const jit::MissingCompilerError& one) {
    raise(missing_compiler_error, one);
  } catch (const jit::ToolchainError& one) {
    raise(error, one);
  } catch (const jit::CompileError& one) {
    raise_compile_error(one);
  } catch (const jit::CudaError& one) {
    raise(cuda_error, one);
  } catch (const jit::Error& one) {
    raise(PyExc_ValueError, one);
  }
}

}  // namespace

void add_errors(nb::module_& module) {
  error = add(module, "Error", "Base of the errors that are not errors of arguments.",
              PyExc_RuntimeError);
  compile_error = add(
      module, "CompileError",
      "The compiler rejected the source of a kernel. The message has the first errors, and `log` "
      "the compiler's complete output.",
      error);
  cuda_error = add(module, "CudaError", "A call of the CUDA driver failed.", error);
  missing_compiler_error = add(module, "MissingCompilerError",
                               "A kernel must be compiled, and there is no C++ compiler. The "
                               "message says how to install one.",
                               error);
  option_error = add(module, "OptionError",
                     "A number of an option is out of range. `option` and `index` say which.",
                     PyExc_ValueError);
  nb::register_exception_translator(translate);
  run_signal_handlers_in_waits();
}

}  // namespace jitstep::python
