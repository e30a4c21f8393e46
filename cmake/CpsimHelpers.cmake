# Helpers that keep the folders' build files to a few lines each.

# Strict C17 for every target of the project.
add_library(cpsim_options INTERFACE)
target_compile_features(cpsim_options INTERFACE c_std_17)
target_compile_definitions(cpsim_options INTERFACE _GNU_SOURCE)
target_compile_options(cpsim_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wdouble-promotion -Wvla
  -ffp-contract=off  # golden numbers must not depend on whether the machine fuses a*b+c
  $<$<BOOL:${CPSIM_WERROR}>:-Werror>)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(CPSIM_SANITIZE)
  target_compile_options(cpsim_options INTERFACE -fsanitize=${CPSIM_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(cpsim_options INTERFACE -fsanitize=${CPSIM_SANITIZE})
endif()

# cpsim_library(NAME LINK...): the static library of this folder, from all its .c files, but those whose path matches
# the regular expression ${NAME}_EXCLUDE.
function(cpsim_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
  if(${name}_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${${name}_EXCLUDE}")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC cpsim_options ${ARGN})
endfunction()

# Tests are many programs: where there is a linker faster than the usual one (gold comes with Debian's), it links them.
include(CheckLinkerFlag)
set(cpsim_test_linker "")
foreach(linker lld gold)
  check_linker_flag(C "-fuse-ld=${linker}" CPSIM_HAVE_${linker})
  if(CPSIM_HAVE_${linker} AND NOT cpsim_test_linker)
    set(cpsim_test_linker "-fuse-ld=${linker}")
  endif()
endforeach()
# And most of a test's compilation is the optimisation of what runs once.
set(cpsim_test_optimisation $<$<CONFIG:RelWithDebInfo>:-O1>)
if(CPSIM_SANITIZE)
  set(cpsim_test_optimisation -O0)
endif()

# cpsim_test(FILE LINK...): one cmocka program; tests/sim/ring_test.c becomes the test sim.ring_test.
function(cpsim_test file)
  get_filename_component(base "${file}" NAME_WE)
  get_filename_component(folder "${file}" DIRECTORY)
  get_filename_component(folder "${folder}" NAME)
  set(target "${folder}_${base}")
  add_executable(${target} "${file}")
  if(CPSIM_HAVE_CUDA) # not nvcc's choice: the CUDA library needs nothing that the C linker does not bring
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  endif()
  target_link_libraries(${target} PRIVATE ${ARGN} PkgConfig::CMOCKA)
  target_link_options(${target} PRIVATE ${cpsim_test_linker})
  target_compile_options(${target} PRIVATE ${cpsim_test_optimisation})
  target_compile_definitions(${target} PRIVATE CPSIM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             CPSIM_COMMAND="$<TARGET_FILE:cpsim>")
  add_test(NAME ${folder}.${base} COMMAND ${target} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${folder}.${base} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
                       ENVIRONMENT "CPSIM_DATA=${PROJECT_SOURCE_DIR}")
endfunction()
