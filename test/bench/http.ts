import { spawn, type ChildProcess, execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ask, createClient } from '../support/ask.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'
import { figure, median, type Figure } from './figures.js'

const run = promisify(execFile)
const client = createClient()
const guests = 1000
const seconds = 5
const rounds = 3

/**
 * Compares a gateway with bare Koa, which sends the same bytes. The gateway has its own Redis and an agent with 1,000
 * guests on a simulated host. Gateway and Koa take turns, with one server process each and 32 connections.
 */
export async function benchHttp(): Promise<Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'btestbench-http-'))
  chmodSync(directory, 0o711)
  const children: ChildProcess[] = []
  try {
    const gateway = await startGateway(directory, children)
    await startLabAgent(directory, gateway, children)
    const koa = await startBareKoa(directory, gateway, children)
    const own = { list: [] as number[], detail: [] as number[] }
    const bare = { list: [] as number[], detail: [] as number[] }
    for (let round = 0; round < rounds; round++) {
      own.list.push(await rate(`${gateway.url}/api/v1/containers`, gateway.key))
      bare.list.push(await rate(`${koa}/list`, gateway.key))
      own.detail.push(await rate(`${gateway.url}/api/v1/containers/${gateway.name}`, gateway.key))
      bare.detail.push(await rate(`${koa}/detail`, gateway.key))
    }
    return [
      figure(`GET /containers, ${guests} guests`, '/s', {
        Berth: median(own.list),
        'bare Koa': median(bare.list),
      }),
      figure('GET /containers/{name}', '/s', { Berth: median(own.detail), 'bare Koa': median(bare.detail) }),
    ]
  } finally {
    for (const child of children.reverse()) await end(child)
    rmSync(directory, { recursive: true, force: true })
  }
}

interface Gateway {
  url: string
  key: string
  /** Name of one of the guests. */
  name: string
}

async function startGateway(directory: string, children: ChildProcess[]): Promise<Gateway> {
  const [api, join_] = [await freePort(), await freePort()]
  const config = join(directory, 'gateway.yaml')
  writeFileSync(
    config,
    JSON.stringify({
      state_dir: join(directory, 'state'),
      run_dir: join(directory, 'run'),
      listen: `127.0.0.1:${api}`,
      join_listen: `127.0.0.1:${join_}`,
      log_level: 'info',
      // These limits are never reached. They still make the gateway count requests.
      limits: { key_requests_per_second: 1_000_000, address_requests_per_second: 1_000_000 },
    }),
  )
  const keyFile = join(directory, 'admin.key')
  await run(process.execPath, ['dist/gateway/main.js', 'init', '--config', config, '--admin-key-file', keyFile])
  children.push(spawn(process.execPath, ['dist/gateway/main.js', 'serve', '--config', config], { stdio: 'ignore' }))
  const url = `http://127.0.0.1:${api}`
  await waitFor(() => isOk(`${url}/readyz`), { what: 'gateway ready' })
  return { url, key: readFileSync(keyFile, 'utf8').trim(), name: '' }
}

async function startLabAgent(directory: string, gateway: Gateway, children: ChildProcess[]): Promise<void> {
  const port = await freePort()
  const { text } = await ask(client, `${gateway.url}/api/v1/hosts`, {
    method: 'POST',
    headers: { 'x-api-key': gateway.key, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'lab', address: `127.0.0.1:${port}` }),
  })
  const { data } = JSON.parse(text) as { data: { join_token: string } }
  const program = ['--import', 'tsx', 'test/support/memory/lab-agent-main.ts']
  const options = [
    '--identity',
    join(directory, 'identity'),
    '--join',
    data.join_token,
    '--listen',
    `127.0.0.1:${port}`,
  ]
  children.push(
    spawn(process.execPath, [...program, ...options, '--guests', `${guests}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  )
  await waitFor(
    async () => {
      const list = await fetchJson<{ data: { name: string }[] }>(`${gateway.url}/api/v1/containers`, gateway.key)
      gateway.name = list.data[0]?.name ?? ''
      return list.data.length === guests
    },
    { intervalMs: 100, what: `${guests} guests in the view` },
  )
}

async function startBareKoa(directory: string, gateway: Gateway, children: ChildProcess[]): Promise<string> {
  for (const [file, path] of [
    ['list.json', '/containers'],
    ['detail.json', `/containers/${gateway.name}`],
  ] as const) {
    const headers = { 'x-api-key': gateway.key }
    const { text } = await ask(client, `${gateway.url}/api/v1${path}`, { headers })
    writeFileSync(join(directory, file), text)
  }
  const port = await freePort()
  const program = ['test/bench/bare-koa.mjs', directory, String(port)]
  children.push(spawn(process.execPath, program, { stdio: 'inherit' }))
  const url = `http://127.0.0.1:${port}`
  await waitFor(() => isOk(`${url}/list`), { what: 'bare Koa' })
  return url
}

/** Returns the requests per second that wrk measures. */
async function rate(url: string, key: string): Promise<number> {
  const { stdout } = await run('wrk', ['-t1', '-c32', `-d${seconds}s`, '-H', `X-API-Key: ${key}`, url])
  const [, text] = /Requests\/sec:\s+([\d.]+)/.exec(stdout) ?? []
  if (text === undefined || /Non-2xx/.test(stdout)) throw new Error(`wrk ${url}: ${stdout}`)
  return Number(text)
}

async function isOk(url: string): Promise<boolean> {
  try {
    return (await ask(client, url)).status === 200
  } catch {
    return false
  }
}

async function fetchJson<T>(url: string, key: string): Promise<T> {
  const { text } = await ask(client, url, { headers: { 'x-api-key': key } })
  return JSON.parse(text) as T
}

function end(child: ChildProcess): Promise<unknown> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
  const gone = new Promise((done) => child.once('exit', done))
  child.kill('SIGTERM')
  return gone
}
