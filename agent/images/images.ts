import type { Logger } from 'pino'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { Semaphore } from '../../shared/async/semaphore.js'
import { BerthError, conflict, invalidField, notFound } from '../../shared/errors.js'
import { recordedError } from '../operations/retry.js'
import type { Changes } from '../state/changes.js'
import { findFirmwareHindrance } from '../host/guest/firmware.js'
import { diskIdOf, findRecipe, hostArch, type CatalogEntry, type ImageType } from './catalog.js'
import { SharedBuild } from './shared-build.js'
import type { ImagePool } from './pool.js'
import type { Report } from './publish.js'
import { ImageStore, type TemplateRecord } from './image-store.js'

export interface ImagesParts {
  readonly pool: ImagePool
  readonly changes: Changes
  readonly log: Logger
  /** True if this host has a driver for this kind of guest. Default: true for containers, false otherwise. */
  readonly canRun?: (virtualization: 'lxc' | 'kvm') => boolean
  /** True if an unfinished operation needs the image for a guest. Default: false. */
  readonly isUsed?: (templateId: string) => boolean
  /** True if an unfinished operation creates the image. Default: false. */
  readonly isOrdered?: (templateId: string) => boolean
}

/** Maximum number of images that are created in parallel. Each uses a connection, the disk and a processor. */
const atOnce = 4

/** Manages templates and their images on this host. */
export class Images {
  readonly store: ImageStore
  readonly #parts: ImagesParts
  readonly #slots = new Semaphore(atOnce)
  readonly #builds = new Map<string, SharedBuild>()
  readonly #removals = new KeyedSingleFlight<string>()

  constructor(parts: ImagesParts) {
    this.#parts = parts
    const { canRun = (kind) => kind === 'lxc' } = parts
    this.store = new ImageStore(parts.changes, (entry) => unsupported(entry, canRun))
  }

  templates(): TemplateRecord[] {
    return this.store.templates()
  }

  find(id: string): TemplateRecord | undefined {
    return this.store.find(id)
  }

  /** Returns a template. @throws {BerthError} `not_found` */
  get(id: string): TemplateRecord {
    const template = this.find(id)
    if (!template) throw notFound('image')
    return template
  }

  /** Returns the id of the template for this kind of guest: for `kvm`, the counterpart of a container's template. */
  idFor(id: string, virtualization: ImageType): string {
    const isOther = virtualization === 'kvm' && this.find(id)?.virtualization === 'lxc'
    return isOther && this.find(diskIdOf(id)) ? diskIdOf(id) : id
  }

  /** Returns the operating system of a template. Default: linux. */
  osOf(id: string): 'linux' | 'windows' {
    return this.find(id)?.os ?? 'linux'
  }

  has(id: string): boolean {
    return this.store.isAvailable(id)
  }

  /**
   * Checks whether it is allowed to create a guest from a template.
   * @throws {BerthError} `invalid_field`, `unsupported`, `image_disabled`
   */
  checkUsable(id: string, virtualization: ImageType): void {
    this.#check('template_id', id, [virtualization])
  }

  /**
   * Checks whether a template can be booted temporarily instead of a guest's disk.
   * @throws {BerthError} like `checkUsable`, with the field `image`
   */
  checkBootable(id: string, types: readonly ImageType[]): void {
    this.#check('image', id, types)
  }

  #check(field: string, id: string, types: readonly ImageType[]): void {
    const template = this.find(id)
    if (!template) throw invalidField(field, `${field}: template ${id} does not exist`)
    const { virtualization, unsupported, disabled } = template
    if (!types.includes(virtualization))
      throw invalidField(field, `${field}: image ${id} has the type ${virtualization}, not ${types.join(' or ')}`)
    if (unsupported !== '') throw unsupportedHere(template, field)
    if (disabled) throw conflict('image_disabled', `${field}: image ${id} is disabled`)
  }

  /** True if an unfinished operation needs the image for a guest. */
  isUsed(id: string): boolean {
    return this.#parts.isUsed?.(id) ?? false
  }

  /**
   * Creates an image if it does not exist. Calls for one template share one attempt. The attempt is aborted when all
   * callers have aborted.
   * @throws {BerthError} `template_unknown`, `unsupported`, and the errors of the image's creation
   */
  async ensure(id: string, report: Report, signal: AbortSignal): Promise<void> {
    const entry = this.store.findEntry(id)
    const template = this.find(id)
    if (!entry || !template) throw new BerthError('not_found', 'template_unknown', `template ${id} does not exist`)
    if (template.unsupported !== '') throw unsupportedHere(template)
    for (;;) {
      await this.#removals.settled(id)
      if (await this.#isThere(id)) return report(1, 'image ready')
      const build = this.#builds.get(id)
      if (!build?.abandoned) return (build ?? this.#begin(entry)).join(report, signal)
      await build.settled()
    }
  }

  /**
   * Undoes an attempt to create an image: removes its files, and the image if it is complete. Removes nothing while
   * other callers wait for the image, or while an unfinished operation needs it for a guest.
   */
  async takeBack(id: string): Promise<void> {
    if (this.#builds.has(id) || this.isUsed(id)) return
    await this.#parts.pool.discardFetched(id)
    if (await this.#parts.pool.has(id)) await this.remove(id)
  }

  /** Removes an image and keeps its template. Callers that need the image wait, and then create the image again. */
  async remove(id: string): Promise<void> {
    this.store.update(id, { sizeBytes: 0, builtAtMs: 0 })
    await this.removeFiles(id)
  }

  /** Removes the files of an image that is no longer in the journal. */
  removeFiles(id: string): Promise<void> {
    return this.#removals.run(id, () => this.#parts.pool.remove(id))
  }

  /** Removes unfinished images and records which images the pool contains. Call it before any image is created. */
  async sweep(): Promise<void> {
    const { isOrdered = () => false, pool } = this.#parts
    this.store.matchCatalog()
    for (const { id } of this.store.templates()) this.store.update(id, { making: false, ordered: isOrdered(id) })
    await pool.sweep({
      isWanted: (id) => this.find(id) !== undefined && (isOrdered(id) || this.isUsed(id)),
      isKnown: (id) => this.find(id) !== undefined,
    })
    for (const { id } of this.store.templates()) await this.#reconcile(id)
  }

  #begin(entry: CatalogEntry): SharedBuild {
    const { id } = entry
    const build = new SharedBuild(async (report, signal) => {
      let failure = ''
      try {
        await this.#make(entry, this.#told(id, report), signal)
      } catch (error) {
        if (!signal.aborted) failure = recordedError(error).code
        throw error
      } finally {
        this.#builds.delete(id)
        this.store.update(id, { making: false, failure })
      }
    })
    this.#builds.set(id, build)
    return build
  }

  #told(id: string, report: Report): Report {
    return (fraction, stage, transfer = { receivedBytes: 0, totalBytes: 0, bytesPerSec: 0 }) => {
      report(fraction, stage, transfer)
      this.store.report(id, { ...transfer, progress: Math.floor(fraction * 1000) / 10 })
    }
  }

  async #make(entry: CatalogEntry, report: Report, signal: AbortSignal): Promise<void> {
    if (this.has(entry.id)) return // the previous build has created the image after the caller's check
    this.store.update(entry.id, { making: true, failure: '' })
    report(0, 'waiting for other images')
    const begin = performance.now()
    await this.#slots.run(() => this.#parts.pool.make(entry, { report, signal }), signal)
    await this.#record(entry.id)
    const how = findRecipe(entry) ? 'image built' : 'image downloaded'
    this.#parts.log.info({ template: entry.id, tookMs: Math.round(performance.now() - begin) }, how)
  }

  async #reconcile(id: string): Promise<void> {
    const there = await this.#parts.pool.has(id)
    if (there && !this.has(id)) await this.#record(id)
    if (!there) this.store.update(id, { sizeBytes: 0, builtAtMs: 0 })
  }

  async #isThere(id: string): Promise<boolean> {
    await this.#reconcile(id)
    return this.has(id)
  }

  async #record(id: string): Promise<void> {
    const sizeBytes = await this.#parts.pool.readSize(id)
    this.store.update(id, { sizeBytes, builtAtMs: Date.now() })
  }
}

/** Returns the error for a template that this host does not support. The caller throws it. */
export function unsupportedHere({ id, unsupported: why }: TemplateRecord, field = 'template_id'): BerthError {
  return new BerthError('invalid', 'unsupported', `${field}: image ${id} cannot be used: ${why}`, { field })
}

function unsupported(
  { virtualization, arch, machine }: CatalogEntry,
  canRun: (virtualization: 'lxc' | 'kvm') => boolean,
): string {
  const kind = virtualization === 'lxc' ? 'lxc' : 'kvm'
  if (!canRun(kind)) return `this host cannot run ${kind} guests`
  if (arch !== hostArch) return `it is for ${arch}, but this host is ${hostArch}`
  return (machine && findFirmwareHindrance(machine)) ?? ''
}
