import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { toBerthError } from '../../shared/errors.js'
import type { Imports } from './imports.js'
import { parseImportRequest } from './parse-request.js'

/** Path of the socket on which the agent receives imports. Only root of the host may connect. */
export function importSocketOf(runDir: string): string {
  return join(runDir, 'import.sock')
}

const maxBodyBytes = 64 * 1024

/**
 * Receives imports from `berth-agent import` on this host. These requests are not part of the protocol for gateways,
 * because they name paths of the host. The requests:
 * - `POST /plan` and `POST /imports`, with an `ImportRequest`
 * - `GET /imports/ID` and `DELETE /imports/ID`
 * @returns a function that closes the socket
 */
export async function serveImports(imports: Imports, runDir: string, log: Logger): Promise<() => Promise<void>> {
  const path = importSocketOf(runDir)
  await rm(path, { force: true })
  const server = createServer((request, response) => void answer(imports, request, response, log))
  const listening = once(server, 'listening')
  const umask = process.umask(0o177) // other parts of the agent must not create files with this umask
  server.listen(path) // creates the socket before it returns
  process.umask(umask)
  await listening
  return async () => {
    server.closeAllConnections()
    await new Promise((done) => server.close(done))
  }
}

async function answer(
  imports: Imports,
  request: IncomingMessage,
  response: ServerResponse,
  log: Logger,
): Promise<void> {
  try {
    send(response, 200, await handle(imports, request))
  } catch (error) {
    const { code, message, kind } = toBerthError(error, 'the import failed: see the log of the agent')
    if (kind === 'internal') log.error({ err: error }, 'a request for an import failed')
    send(response, 400, { code, message })
  }
}

async function handle(imports: Imports, request: IncomingMessage): Promise<unknown> {
  const { method = '', url = '' } = request
  const id = /^\/imports\/([0-9a-f-]{36})$/.exec(url)?.[1]
  if (id !== undefined && method === 'GET') return imports.show(id)
  if (id !== undefined && method === 'DELETE') return imports.cancel(id) ?? {}
  const wanted = parseImportRequest(await readBody(request))
  return url === '/plan' ? { plan: await imports.plan(wanted) } : imports.begin(wanted)
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBodyBytes) break
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
