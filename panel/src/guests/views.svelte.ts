import { parseViews, withView, type GuestView } from './views.ts'

const storageKey = 'berth.views'

/** The views of the guest list that this browser has stored. */
class SavedViews {
  #all = $state.raw<readonly GuestView[]>(parseViews(localStorage.getItem(storageKey)))

  get all(): readonly GuestView[] {
    return this.#all
  }

  /** Stores a view. It replaces the view with the same name. */
  save(view: GuestView): void {
    this.#write(withView(this.#all, view))
  }

  remove(name: string): void {
    this.#write(this.#all.filter((one) => one.name !== name))
  }

  #write(views: readonly GuestView[]): void {
    this.#all = views
    localStorage.setItem(storageKey, JSON.stringify(views))
  }
}

export const savedViews = new SavedViews()
