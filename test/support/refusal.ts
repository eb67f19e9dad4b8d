import { expect } from 'chai'

/** Returns the code and message of a refused call. @throws if the call succeeds */
export async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => expect.fail('the call was not refused'),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  )
}
