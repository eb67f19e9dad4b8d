import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import { Closers } from '../../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../../agent/daemon/domain.js'
import { openHost, type LinuxHost } from '../../../agent/daemon/host.js'
import { purge } from '../../../agent/daemon/purge.js'
import type { GuestRecord } from '../../../agent/guests/record/record.js'
import type { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../../shared/config.js'
import { createOrder, createRequest, powerOrder } from './agent-calls.js'
import { agentConfig } from './agent-process.js'
import { installBusyboxImage } from '../guests/busybox-image.js'
import { scratchDirectory } from '../scratch.js'
import { patienceMs } from '../wait.js'

const log = pino({ level: 'silent' })

/** The logic of an agent (`Domain`) with real guests, but without the agent's timers and gRPC. */
export class RealDomain {
  /** The agent's clock in ms since 1970. */
  now: () => number = Date.now
  domain!: Domain
  host!: LinuxHost
  readonly #scratch: ReturnType<typeof scratchDirectory>
  readonly #closers = new Closers()
  readonly config: AgentConfig
  #ids = 0

  /** @param tag a few letters, unique for every test file, for names on the host */
  constructor(
    private readonly tag: string,
    overrides: Record<string, unknown> = {},
  ) {
    this.#scratch = scratchDirectory(`btest-${tag}`)
    this.config = validateConfig(AgentConfigSchema, agentConfig(this.#scratch.path, tag, overrides), 'test')
  }

  /** Opens the host and the domain. The image of `debian-12` is replaced by BusyBox. */
  async open(): Promise<void> {
    this.#makeDirectories()
    await purge(this.config, log)
    this.#makeDirectories()
    this.host = await openHost(this.config, log, this.#closers)
    await installBusyboxImage(this.config.storage.pool, 'debian-12')
    this.domain = await openDomain(this.host, { config: this.config, log, now: () => this.now() }, this.#closers)
    await this.domain.images.sweep()
    await this.domain.reconciler.network.compare()
    this.domain.engine.recover()
  }

  /** Deletes all guests, then closes the domain and removes everything on the host. */
  async close(): Promise<void> {
    for (const { uuid } of this.domain?.context.store.list() ?? []) await this.done(powerOrder('delete', uuid).order)
    await this.#closers.run()
    await purge(this.config, log)
    this.#scratch.wipe()
  }

  /** Creates a guest and waits until it exists. @returns its UUID */
  async create(name: string, spec: Partial<GuestSpec> = {}): Promise<string> {
    const request = createRequest(++this.#ids, name, spec)
    await this.done(createOrder(request).order)
    return request.uuid
  }

  /** Submits an operation and waits until it is done. @returns its id */
  async done(order: SubmitOperationRequest['order']): Promise<string> {
    const operationId = randomUUID()
    const { operation } = await this.domain.orders.submit({ operationId, requestedBy: 'test', order: order! })
    const { status, error } = await this.domain.engine.wait(operation.id)
    expect(status, error).to.equal('done')
    return operationId
  }

  record(uuid: string): GuestRecord {
    return this.domain.context.store.get(uuid)
  }

  /** Runs a shell command inside a running guest. @returns its output @throws if it fails */
  inside(uuid: string, command: string): string {
    return execFileSync('lxc-attach', this.#attach(uuid, command), {
      encoding: 'utf8',
      timeout: patienceMs,
    }).trim()
  }

  /** Runs a shell command inside a guest. @returns standard output and standard error, even if it fails */
  tries(uuid: string, command: string): string {
    const { stdout, stderr } = spawnSync('lxc-attach', this.#attach(uuid, command), {
      encoding: 'utf8',
      timeout: patienceMs,
    })
    return `${stdout}${stderr}`
  }

  #attach(uuid: string, command: string): string[] {
    const name = `x${this.tag}-${this.record(uuid).id}`
    const lxcPath = join(this.config.state_dir, 'lxc')
    return ['-P', lxcPath, '-n', name, '--clear-env', '--', '/bin/sh', '-c', command]
  }

  #makeDirectories(): void {
    for (const directory of [this.config.state_dir, this.config.run_dir]) mkdirSync(directory, { recursive: true })
  }
}
