/* cobandits.compiled._handover: a request of a thread, which waits for its answer without Python's lock.
 *
 * Where many callers are answered at once and all are woken, each stops the one that runs: they change places
 * 2.5 times per answer. So a few are woken, and each wakes another one as soon as it has Python's lock itself, so
 * that few want it at any time: 1.1 times. Everything here but waiting happens under that lock, which guards it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>
#include <structmember.h>

typedef struct Call {
    PyObject_HEAD
    PyObject *space, *request, *result;
    PyThread_type_lock answered; /* released when the caller is woken */
    struct Call *next;           /* who is woken by this one */
    char is_waiting, is_woken, is_held; /* the last of the lock */
} Call;

static PyTypeObject *call_type;

static PyObject *new_call(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *space, *request;
    if (names && PyDict_Size(names)) return PyErr_Format(PyExc_TypeError, "a call takes no names");
    if (!PyArg_ParseTuple(args, "OO", &space, &request)) return NULL;
    Call *made = (Call *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!made) return NULL;
    made->space = Py_NewRef(space), made->request = Py_NewRef(request);
    if (!(made->answered = PyThread_allocate_lock())) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    made->is_held = (char)PyThread_acquire_lock(made->answered, WAIT_LOCK);
    return (PyObject *)made;
}

static void free_call(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Call *call = (Call *)self;
    Py_XDECREF(call->space), Py_XDECREF(call->request), Py_XDECREF(call->result);
    Py_XDECREF((PyObject *)call->next);
    if (call->answered) {
        if (call->is_held) PyThread_release_lock(call->answered);
        PyThread_free_lock(call->answered);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Wake a caller, or the next one where this one does not wait (yet, or no longer); takes the reference. */
static void wake(Call *call) {
    while (call) {
        Call *next = NULL;
        call->is_woken = 1;
        if (call->is_waiting) {
            call->is_held = 0;
            PyThread_release_lock(call->answered);
        } else next = call->next, call->next = NULL;
        Py_DECREF(call);
        call = next;
    }
}

/* Wait until woken: 0; or -1 with an exception, of a signal that came first. */
static int wait_for_answer(Call *call) {
    PyLockStatus status = PY_LOCK_INTR;
    int failed = 0;
    call->is_waiting = 1;
    while (!failed && status != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        status = PyThread_acquire_lock_timed(call->answered, -1, 1);
        Py_END_ALLOW_THREADS
        if (status == PY_LOCK_ACQUIRED) call->is_held = 1;
        else failed = PyErr_CheckSignals();
    }
    call->is_waiting = 0;
    return failed;
}

static PyObject *py_wait(Call *call, PyObject *none) {
    (void)none;
    int failed = call->is_woken ? 0 : wait_for_answer(call);
    if (call->is_woken) { /* also one that was interrupted just then */
        Call *next = call->next;
        call->next = NULL;
        wake(next);
    }
    if (failed) return NULL;
    PyObject *result = call->result;
    call->result = NULL;
    return result ? result : PyErr_Format(PyExc_RuntimeError, "this call has handed on its result already");
}

static int can_answer(PyObject *one) {
    if (!PyObject_TypeCheck(one, call_type)) PyErr_SetString(PyExc_TypeError, "only calls are answered");
    else if (((Call *)one)->result || ((Call *)one)->is_woken)
        PyErr_SetString(PyExc_RuntimeError, "this call was answered before");
    else return 1;
    return 0;
}

static PyObject *py_answer(Call *call, PyObject *result) {
    if (!can_answer((PyObject *)call)) return NULL;
    call->result = Py_NewRef(result);
    wake((Call *)Py_NewRef((PyObject *)call));
    Py_RETURN_NONE;
}

/* answer_all(calls, results, width): wake the first ``width`` callers, who wake the others. */
static PyObject *py_answer_all(PyObject *self, PyObject *args) {
    PyObject *calls, *results;
    Py_ssize_t width;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!n", &PyList_Type, &calls, &PyList_Type, &results, &width)) return NULL;
    Py_ssize_t count = PyList_Size(calls);
    if (width < 1 || PyList_Size(results) != count) return PyErr_Format(PyExc_ValueError, "one result per call");
    for (Py_ssize_t i = 0; i < count; i++) /* first, so that all of them are answered, or none */
        if (!can_answer(PyList_GetItem(calls, i))) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        Call *call = (Call *)PyList_GetItem(calls, i);
        call->result = Py_NewRef(PyList_GetItem(results, i));
        if (i + width < count) call->next = (Call *)Py_NewRef(PyList_GetItem(calls, i + width));
    }
    for (Py_ssize_t i = 0; i < width && i < count; i++) wake((Call *)Py_NewRef(PyList_GetItem(calls, i)));
    Py_RETURN_NONE;
}

static PyMethodDef call_methods[] = {
    {"answer", (PyCFunction)py_answer, METH_O, "Give the result to the caller, and wake it."},
    {"wait", (PyCFunction)py_wait, METH_NOARGS, "Return the result when it is there."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef call_members[] = {
    {"space", T_OBJECT_EX, offsetof(Call, space), READONLY, "The number of the space."},
    {"request", T_OBJECT_EX, offsetof(Call, request), READONLY, "What is asked."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_doc, "One request of a caller who waits for it."},
    {Py_tp_new, new_call},
    {Py_tp_dealloc, free_call},
    {Py_tp_methods, call_methods},
    {Py_tp_members, call_members},
    {0, NULL},
};

static PyType_Spec call_spec = {"cobandits.compiled._handover.Call", sizeof(Call), 0, Py_TPFLAGS_DEFAULT, call_slots};

static PyMethodDef methods[] = {
    {"answer_all", py_answer_all, METH_VARARGS, "Give results to their callers, and wake them a few at a time."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._handover", "Requests of threads that wait.", -1, methods,
};

PyMODINIT_FUNC PyInit__handover(void) {
    PyObject *made = PyModule_Create(&module), *type = made ? PyType_FromSpec(&call_spec) : NULL;
    call_type = (PyTypeObject *)type;
    if (type && !PyModule_AddObjectRef(made, "Call", type)) return made;
    Py_XDECREF(made), Py_XDECREF(type);
    return NULL;
}
