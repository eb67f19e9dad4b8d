import { expect } from 'chai'

/** Code and message of a refused call. @throws if it succeeds */
export async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => expect.fail('was not refused'),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  )
}
