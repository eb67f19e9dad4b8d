import type { toast } from 'svelte-sonner'

type Toast = typeof toast

/** Short notices in a corner of the page. Their script is loaded after the first page, or with the first notice. */
class Notices {
  isWanted = $state(false)

  async show(make: (given: Toast) => unknown): Promise<void> {
    this.isWanted = true
    // If the script cannot be loaded, an error message appears in place of the notices.
    const module = await import('svelte-sonner').catch(() => undefined)
    if (module) make(module.toast)
  }
}

export const notices = new Notices()
