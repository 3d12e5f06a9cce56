// From lists of feature names, or dictionaries of features, to the rows of a matrix. A token is
//
//   ["w=the", "pos=DT"]            each name counts 1
//   {"w": "the", "length": 3.0}    "w:the" counts 1, "length" counts 3
//   {"title": True}                "title" counts 1; False counts 0 and is left out
//   {"w": ["a", "b"], "at": {...}} "w:a" and "w:b" count 1; nested names are joined by ":"
//
// as in python-crfsuite. The vocabulary is a Python dictionary from name to column.
#include "bindings.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace bridle {
namespace {

class Interner {
public:
  Interner(nb::dict vocabulary, bool grow) : vocabulary_(std::move(vocabulary)), grow_(grow) {}

  void sequence(nb::handle tokens) {
    const nb::object list = as_list(tokens, "a sequence must be a list of tokens");
    const Py_ssize_t length = PyList_Size(list.ptr());
    for (position_ = 0; position_ < length; ++position_)
      token(PyList_GetItem(list.ptr(), position_));
    sequences_.push_back(static_cast<int64_t>(tokens_.size()) - 1);
    ++n_sequences_;
  }

  nb::tuple result() {
    return nb::make_tuple(to_numpy(std::move(sequences_)), to_numpy(std::move(tokens_)),
                          to_numpy(std::move(columns_)), to_numpy(std::move(values_)));
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    const std::string where =
        "sequence " + std::to_string(n_sequences_) + ", token " + std::to_string(position_);
    throw nb::type_error((where + ": " + what).c_str());
  }

  // A list is taken as it is, other sequences are copied: the stable ABI has no way to look into
  // both.
  nb::object as_list(nb::handle value, const char *what) const {
    if (PyList_Check(value.ptr()))
      return nb::borrow(value);
    if (PyUnicode_Check(value.ptr()) || PyDict_Check(value.ptr()))
      fail(what);
    PyObject *list = PySequence_List(value.ptr());
    if (!list) {
      PyErr_Clear();
      fail(what);
    }
    return nb::steal(list);
  }

  void token(PyObject *features) {
    entries_.clear();
    if (PyDict_Check(features))
      dictionary(nullptr, features);
    else
      names(nullptr, features);
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry &a, const Entry &b) { return a.first < b.first; });
    const size_t begin = columns_.size();
    for (const auto &[column, value] : entries_) {
      if (columns_.size() > begin && columns_.back() == column) {
        values_.back() += value;
      } else {
        columns_.push_back(column);
        values_.push_back(value);
      }
    }
    tokens_.push_back(static_cast<int64_t>(columns_.size()));
  }

  void names(PyObject *prefix, PyObject *features) {
    const nb::object list =
        as_list(features, "its features must be a list of strings or a dictionary");
    const Py_ssize_t n = PyList_Size(list.ptr());
    for (Py_ssize_t k = 0; k < n; ++k) {
      PyObject *name = PyList_GetItem(list.ptr(), k);
      if (!PyUnicode_Check(name))
        fail("a feature's name must be a string, got " + type_name(name));
      count(prefix, name, 1);
    }
  }

  void dictionary(PyObject *prefix, PyObject *features, int depth = 0) {
    if (depth > deepest)
      fail("its features are nested too deeply");
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(features, &at, &key, &value);) {
      if (!PyUnicode_Check(key))
        fail("a feature's name must be a string, got " + type_name(key));
      const nb::object name = joined(prefix, key);
      if (PyUnicode_Check(value))
        count(name.ptr(), value, 1);
      else if (PyBool_Check(value))
        count_if(name.ptr(), value == Py_True ? 1 : 0);
      else if (PyDict_Check(value))
        dictionary(name.ptr(), value, depth + 1);
      else if (PyNumber_Check(value))
        count_if(name.ptr(), number(value));
      else
        names(name.ptr(), value);
    }
  }

  double number(PyObject *value) const {
    const double v = PyFloat_AsDouble(value);
    if (v == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      fail("a feature's value must be a string, a number, a list or a dictionary, got " +
           type_name(value));
    }
    if (!std::isfinite(static_cast<float>(v)))
      fail("a feature's value must be finite");
    return v;
  }

  static std::string type_name(PyObject *value) {
    return nb::cast<std::string>(nb::handle(value).type().attr("__name__"));
  }

  nb::object joined(PyObject *prefix, PyObject *name) {
    if (!prefix)
      return nb::borrow(name);
    PyObject *both = PyUnicode_Concat(with_colon(prefix).ptr(), name);
    if (!both)
      nb::raise_python_error();
    return nb::steal(both);
  }

  // "name:". The keys of dictionaries are few, and mostly the same objects from token to token.
  nb::handle with_colon(PyObject *name) {
    if (const auto found = with_colon_.find(name); found != with_colon_.end())
      return found->second.second;
    if (with_colon_.size() >= most_prefixes)
      with_colon_.clear();
    PyObject *colon = PyUnicode_FromFormat("%U:", name);
    if (!colon)
      nb::raise_python_error();
    // With the name itself: its address is another's once it is gone.
    return with_colon_.emplace(name, std::pair(nb::borrow(name), nb::steal(colon)))
        .first->second.second;
  }

  void count_if(PyObject *name, double value) {
    if (value != 0)
      count(nullptr, name, value);
  }

  void count(PyObject *prefix, PyObject *name, double value) {
    const nb::object key = joined(prefix, name);
    PyObject *found = PyDict_GetItemWithError(vocabulary_.ptr(), key.ptr());
    int64_t column;
    if (found) {
      column = PyLong_AsLongLong(found);
      PyErr_Clear(); // -1 then, which is no column
    } else {
      if (PyErr_Occurred())
        nb::raise_python_error();
      if (!grow_)
        return;
      column = static_cast<int64_t>(PyDict_Size(vocabulary_.ptr()));
      const nb::object number = nb::steal(PyLong_FromLongLong(column));
      if (PyDict_SetItem(vocabulary_.ptr(), key.ptr(), number.ptr()) != 0)
        nb::raise_python_error();
    }
    if (column < 0 || column > INT32_MAX)
      fail("the vocabulary maps a name to a column that is not one");
    entries_.emplace_back(static_cast<int32_t>(column), static_cast<float>(value));
  }

  using Entry = std::pair<int32_t, float>;
  static constexpr int deepest = 100; // a dictionary may hold itself

  static constexpr size_t most_prefixes = 4096;

  nb::dict vocabulary_;
  bool grow_;
  std::unordered_map<PyObject *, std::pair<nb::object, nb::object>> with_colon_;
  int64_t n_sequences_ = 0;
  Py_ssize_t position_ = 0;
  std::vector<Entry> entries_;
  std::vector<int64_t> sequences_{0}, tokens_{0};
  std::vector<int32_t> columns_;
  std::vector<float> values_;
};

nb::tuple intern_features(nb::handle sequences, nb::dict vocabulary, bool grow) {
  Interner interner(std::move(vocabulary), grow);
  for (nb::handle sequence : nb::iter(sequences))
    interner.sequence(sequence);
  return interner.result();
}

} // namespace

void bind_features(nb::module_ &m) {
  m.def("intern_features", &intern_features, nb::arg("sequences"), nb::arg("vocabulary"),
        nb::arg("grow"),
        "(sequence offsets, row offsets, columns, values) of lists of tokens; new names are added "
        "to the vocabulary where `grow`, else left out.");
}

} // namespace bridle
