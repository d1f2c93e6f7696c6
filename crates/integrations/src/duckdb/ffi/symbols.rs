//! Functions of the library that are used, named without `duckdb_`.

use std::ffi::{c_char, c_void};

use libloading::Library;

/// Opaque handle of the library.
pub(super) type Handle = *mut c_void;
/// Return code of a function that can fail; 0 is success.
pub(super) type CallState = u32;

/// A result; only the library uses its last field.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawResult {
    column_count: u64,
    row_count: u64,
    rows_changed: u64,
    columns: Handle,
    error_message: *mut c_char,
    internal: Handle,
}

impl RawResult {
    pub(super) const EMPTY: Self = Self {
        column_count: 0,
        row_count: 0,
        rows_changed: 0,
        columns: std::ptr::null_mut(),
        error_message: std::ptr::null_mut(),
        internal: std::ptr::null_mut(),
    };
}

macro_rules! symbols {
    ($($name:ident($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// Functions of the library, which stays loaded as long as this value exists.
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            _library: Library,
        }

        impl Symbols {
            /// Looks up every function.
            ///
            /// # Safety
            /// The library must be `DuckDB`, whose functions have these types.
            pub(super) unsafe fn find(library: Library) -> Result<Self, libloading::Error> {
                $(
                    // SAFETY: the caller guarantees that the function has this type.
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) $(-> $answer)?>(
                            concat!("duckdb_", stringify!($name), "\0").as_bytes(),
                        )?
                    };
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

symbols! {
    library_version() -> *const c_char;
    create_config(*mut Handle) -> CallState;
    set_config(Handle, *const c_char, *const c_char) -> CallState;
    destroy_config(*mut Handle);
    open_ext(*const c_char, *mut Handle, Handle, *mut *mut c_char) -> CallState;
    close(*mut Handle);
    connect(Handle, *mut Handle) -> CallState;
    disconnect(*mut Handle);
    interrupt(Handle);
    free(*mut c_void);
    extract_statements(Handle, *const c_char, *mut Handle) -> u64;
    extract_statements_error(Handle) -> *const c_char;
    destroy_extracted(*mut Handle);
    prepare_extracted_statement(Handle, Handle, u64, *mut Handle) -> CallState;
    prepare_error(Handle) -> *const c_char;
    destroy_prepare(*mut Handle);
    nparams(Handle) -> u64;
    bind_null(Handle, u64) -> CallState;
    bind_boolean(Handle, u64, bool) -> CallState;
    bind_int64(Handle, u64, i64) -> CallState;
    bind_uint64(Handle, u64, u64) -> CallState;
    bind_double(Handle, u64, f64) -> CallState;
    bind_varchar_length(Handle, u64, *const c_char, u64) -> CallState;
    execute_prepared_streaming(Handle, *mut RawResult) -> CallState;
    destroy_result(*mut RawResult);
    result_error(*mut RawResult) -> *const c_char;
    result_return_type(RawResult) -> u32;
    column_count(*mut RawResult) -> u64;
    column_name(*mut RawResult, u64) -> *const c_char;
    column_logical_type(*mut RawResult, u64) -> Handle;
    fetch_chunk(RawResult) -> Handle;
    destroy_data_chunk(*mut Handle);
    data_chunk_get_size(Handle) -> u64;
    data_chunk_get_vector(Handle, u64) -> Handle;
    vector_get_data(Handle) -> *mut c_void;
    vector_get_validity(Handle) -> *mut u64;
    list_vector_get_child(Handle) -> Handle;
    struct_vector_get_child(Handle, u64) -> Handle;
    array_vector_get_child(Handle) -> Handle;
    get_type_id(Handle) -> u32;
    logical_type_get_alias(Handle) -> *mut c_char;
    destroy_logical_type(*mut Handle);
    decimal_scale(Handle) -> u8;
    decimal_internal_type(Handle) -> u32;
    enum_internal_type(Handle) -> u32;
    enum_dictionary_size(Handle) -> u32;
    enum_dictionary_value(Handle, u64) -> *mut c_char;
    list_type_child_type(Handle) -> Handle;
    array_type_child_type(Handle) -> Handle;
    array_type_array_size(Handle) -> u64;
    map_type_key_type(Handle) -> Handle;
    map_type_value_type(Handle) -> Handle;
    struct_type_child_count(Handle) -> u64;
    struct_type_child_name(Handle, u64) -> *mut c_char;
    struct_type_child_type(Handle, u64) -> Handle;
    union_type_member_count(Handle) -> u64;
    union_type_member_type(Handle, u64) -> Handle;
    appender_create_ext(Handle, *const c_char, *const c_char, *const c_char, *mut Handle) -> CallState;
    appender_add_column(Handle, *const c_char) -> CallState;
    appender_column_count(Handle) -> u64;
    appender_column_type(Handle, u64) -> Handle;
    appender_error(Handle) -> *const c_char;
    appender_end_row(Handle) -> CallState;
    appender_close(Handle) -> CallState;
    appender_destroy(*mut Handle) -> CallState;
    append_null(Handle) -> CallState;
    append_bool(Handle, bool) -> CallState;
    append_int64(Handle, i64) -> CallState;
    append_uint64(Handle, u64) -> CallState;
    append_double(Handle, f64) -> CallState;
    append_varchar_length(Handle, *const c_char, u64) -> CallState;
    append_blob(Handle, *const c_void, u64) -> CallState;
    append_value(Handle, Handle) -> CallState;
    create_varchar_length(*const c_char, u64) -> Handle;
    destroy_value(*mut Handle);
}
