/** The body of a response. Its type is `any`, because tests read fields that only the OpenAPI document defines. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a test reads any field of any answer
export type Body = any
