import { request } from 'node:https'
import { splitHostPort } from '../../../shared/join-token.js'

/** Sends a request to the join endpoint, without using the agent's code. @param address host:port */
export function postToJoinEndpoint(
  address: string,
  path: string,
  body: string,
): Promise<{ status: number; text: string }> {
  const target = { ...splitHostPort(address), path, method: 'POST', rejectUnauthorized: false, agent: false }
  return new Promise((resolve, reject) => {
    const call = request(target, (answer) => {
      let text = ''
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
    })
    call.on('error', reject)
    call.end(body)
  })
}
