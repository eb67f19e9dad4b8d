import LoadFailed from './LoadFailed.svelte'
import { reloadForNewVersion } from './reload.ts'

interface Module {
  readonly default: unknown
}

/**
 * Loads the script of a page or of a part of a page. If it is missing because the gateway has a newer panel, reloads
 * the page, but only once. After other failures, an error message with "Try again" replaces the part.
 */
export async function loadComponent<M extends Module>(load: () => Promise<M>): Promise<M> {
  return (await loadOrReload(load)) ?? ({ default: LoadFailed } as unknown as M)
}

/** Like `loadComponent`, but without an error message. @returns undefined if the script could not be loaded */
export async function loadOrReload<M extends Module>(load: () => Promise<M>): Promise<M | undefined> {
  try {
    return await load()
  } catch {
    return (await reloadForNewVersion()) ? new Promise(() => undefined) : undefined
  }
}
