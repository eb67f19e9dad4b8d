import { request } from 'node:http'
import { BerthError } from '../../shared/errors.js'
import { importSocketOf } from './import-server.js'

/**
 * Sends a request to the agent that runs on this host.
 * @throws {BerthError} the agent's refusal; `host_offline` if the agent does not run
 */
export async function callImports<Answer>(
  runDir: string,
  { method, path, body }: { readonly method: string; readonly path: string; readonly body?: unknown },
): Promise<Answer> {
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request({ socketPath: importSocketOf(runDir), method, path }, (response) => {
      let received = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (received += chunk))
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text: received }))
      response.once('error', reject)
    })
    sent.once('error', (cause) =>
      reject(
        new BerthError('unavailable', 'host_offline', 'the agent of this host does not answer: is it running?', {
          cause,
        }),
      ),
    )
    sent.end(body === undefined ? '' : JSON.stringify(body))
  })
  const answer: unknown = JSON.parse(text)
  if (status === 200) return answer as Answer
  const { code, message } = answer as { code: string; message: string }
  throw new BerthError('conflict', code, message)
}
