//! A Python module without PyO3: what a module with one function takes of Python's stable interface.

use std::ffi::{c_char, c_int, c_void, CString};
use std::ptr::null_mut;

#[repr(C)]
struct Object {
    header: [usize; 2],
    _rest: [*mut c_void; 3],
}

#[repr(C)]
struct Method {
    name: *const c_char,
    function: Option<extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void>,
    flags: c_int,
    documentation: *const c_char,
}

#[repr(C)]
struct Definition {
    base: Object,
    name: *const c_char,
    documentation: *const c_char,
    size: isize,
    methods: *mut Method,
    rest: [*mut c_void; 4],
}

unsafe extern "C" {
    fn PyModule_Create2(definition: *mut Definition, api_version: c_int) -> *mut c_void;
    fn PyUnicode_FromString(text: *const c_char) -> *mut c_void;
}

const NO_ARGUMENTS: c_int = 4;
const STABLE_API: c_int = 3;

extern "C" fn parse(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    let text = CString::new(vllm_chat::describe("tool: get weather\nuser: thanks")).unwrap();
    unsafe { PyUnicode_FromString(text.as_ptr()) }
}

#[no_mangle]
pub extern "C" fn PyInit__rust_tool_parser() -> *mut c_void {
    let end = Method { name: std::ptr::null(), function: None, flags: 0, documentation: std::ptr::null() };
    let method =
        Method { name: c"parse".as_ptr(), function: Some(parse), flags: NO_ARGUMENTS, documentation: std::ptr::null() };
    // Python keeps both for as long as the module is there.
    let methods = Box::leak(Box::new([method, end]));
    let definition = Box::leak(Box::new(Definition {
        base: Object { header: [1, 0], _rest: [null_mut(); 3] },
        name: c"_rust_tool_parser".as_ptr(),
        documentation: std::ptr::null(),
        size: -1,
        methods: methods.as_mut_ptr(),
        rest: [null_mut(); 4],
    }));
    unsafe { PyModule_Create2(definition, STABLE_API) }
}
