// A function that is at hand while it is called, of whatever type: what takes one is compiled once
// for all of them.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

namespace bridle {

template <class Signature> class FunctionRef;

template <class Result, class... Arguments> class FunctionRef<Result(Arguments...)> {
public:
  FunctionRef() = default; // none
  template <class Function>
    requires(!std::same_as<std::remove_cvref_t<Function>, FunctionRef>)
  FunctionRef(Function &&function)
      : function_(const_cast<void *>(static_cast<const void *>(std::addressof(function)))),
        call_([](void *at, Arguments... arguments) -> Result {
          auto &call = *static_cast<std::remove_reference_t<Function> *>(at);
          if constexpr (std::is_void_v<Result>)
            call(arguments...);
          else
            return call(arguments...);
        }) {}

  explicit operator bool() const { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

private:
  void *function_ = nullptr;
  Result (*call_)(void *, Arguments...) = nullptr;
};

} // namespace bridle
