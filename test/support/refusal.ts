import { expect } from 'chai'

/** Code and message of what a call is refused with. @throws when it is not */
export async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => expect.fail('was not refused'),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  )
}
